package efa

import "testing"

// TestNull: what is posted completes once, when it is asked for, by its own id,
// over several turns of the rings.
func TestNull(t *testing.T) {
	d, null, err := NewNull("null")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ep, err := d.CreateSRD(SRDOptions{MaxSend: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer ep.Close()
	ah, err := d.CreateAH(d.Attr().GID)
	if err != nil {
		t.Fatal(err)
	}
	defer ah.Close()
	b, out := ep.Batch(), make([]Completion, 64)
	_, local, remote := benchRegion()
	for id := uint64(0); id < 100_000; id += 64 {
		for i := range uint64(64) {
			b.Write(ah.To(9, 1), local, remote, id+i<<40)
		}
		if err := b.Post(); err != nil {
			t.Fatal(err)
		}
		if n, err := ep.Poll(out); n != 0 || err != nil {
			t.Fatalf("%d done by themselves, %v", n, err)
		}
		if n := null.Complete(); n != 64 {
			t.Fatalf("%d completed", n)
		}
		n, err := ep.Poll(out)
		if n != 64 || err != nil {
			t.Fatalf("%d polled, %v", n, err)
		}
		for i, c := range out {
			if c.ID != id+uint64(i)<<40 || c.Status != StatusOK {
				t.Fatalf("%+v", c)
			}
		}
	}
}
