//go:build lab

package verbs

import (
	"context"
	"os"
	"testing"
	"time"
)

// device opens the lab's device; the lab names it in the environment.
func device(t testing.TB) *Device {
	t.Helper()
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	before := Live()
	dev, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("closing the device: %v", err)
		}
		for kind, n := range Live() {
			if n != before[kind] {
				t.Errorf("%d objects of kind %s are left, there were %d", n, kind, before[kind])
			}
		}
	})
	return dev
}

// must closes what a test made, in the reverse order of making.
func must[T interface{ Close() error }](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := v.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return v
	}
}

// rdma skips a test that needs verbs-level connections, which iWARP lacks.
func rdma(t testing.TB, dev *Device) {
	if dev.Transport() == TransportIWARP {
		t.Skip("iWARP connects through the RDMA CM only; verbs/exchange tests that")
	}
}

// pair is two connected queue pairs of one process with a region each.
type pair struct {
	dev    *Device
	pd     *PD
	cq     [2]*CQ
	qp     [2]*RC
	mem    [2]*Buffer
	mr     [2]*MR
	cqOpts CQOptions
}

func connected(t testing.TB, o QPOptions, size int, c ConnectOptions) *pair {
	t.Helper()
	p := &pair{dev: device(t)}
	rdma(t, p.dev)
	p.pd = must[*PD](t)(p.dev.AllocPD())
	var ends [2]Endpoint
	for i := range 2 {
		p.mem[i] = must[*Buffer](t)(NewBuffer(size, BufferOptions{}))
		p.mr[i] = must[*MR](t)(p.pd.Register(p.mem[i].Bytes(), LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic))
		p.cq[i] = must[*CQ](t)(p.dev.CreateCQ(CQOptions{Depth: 512}))
		oi := o
		oi.CQ = p.cq[i]
		p.qp[i] = must[*RC](t)(p.pd.CreateRC(oi))
		var err error
		if ends[i], err = p.qp[i].Endpoint(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		if err := p.qp[i].Connect(ends[1-i], c); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// complete polls until n completions came, or fails the test.
func complete(t testing.TB, q *CQ, n int) []Completion {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out := make([]Completion, n)
	for got := 0; got < n; {
		k, err := q.Poll(out[got:])
		if err != nil {
			t.Fatal(err)
		}
		if got += k; k == 0 && ctx.Err() != nil {
			t.Fatalf("%d of %d completions after 20 s", got, n)
		}
	}
	return out
}
