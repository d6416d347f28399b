package mrcache_test

import (
	"context"
	"testing"

	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

// ended is a registration that counts those that are open.
type ended struct{ open *int }

func (e ended) Close() error {
	*e.open--
	return nil
}

// TestOwn: a registration that is owned serves nobody else and ends with its
// reference; one that others refer to is not given away.
func TestOwn(t *testing.T) {
	for _, budget := range []mrcache.Budget{mrcache.Unlimited, {}} {
		made, open := 0, 0
		c, err := mrcache.New(mrcache.Options{Rails: []mrcache.Rail{{Budget: budget, Registrar: mrcache.RegistrarFunc(
			func(mrcache.Range, mrcache.Access) (mrcache.Registration, error) {
				made++
				open++
				return ended{&open}, nil
			})}}})
		if err != nil {
			t.Fatal(err)
		}
		keeps := budget == mrcache.Unlimited
		get := func() *mrcache.Ref {
			ref, err := c.Get(0, mrcache.Range{Alloc: mrcache.Allocation{Space: mrcache.DMABuf, ID: 1}, Length: page}, local)
			if err != nil {
				t.Fatal(err)
			}
			return &ref
		}
		a, b := get(), get()
		if a.Own() == keeps {
			t.Errorf("keeping %v: a shared registration is owned", keeps)
		}
		b.Release()
		for range 2 {
			if !a.Own() {
				t.Errorf("keeping %v: the only reference does not own it", keeps)
			}
		}
		d := get()
		if made < 2 || d.Registration() == nil || open != 2 {
			t.Errorf("keeping %v: %d made, %d open: what is owned was given again", keeps, made, open)
		}
		a.Release()
		if open != 1 {
			t.Errorf("keeping %v: %d are open once the owner released its", keeps, open)
		}
		if a.Own() {
			t.Error("a reference that was released owns something")
		}
		d.Release()
		if s := c.Stats()[0]; s.Regions != open || keeps && (s.Entries != 1 || open != 1) {
			t.Errorf("keeping %v: %+v; %d are open", keeps, s, open)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if open != 0 {
			t.Errorf("%d are open after the end", open)
		}
	}
}
