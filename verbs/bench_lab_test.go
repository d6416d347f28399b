//go:build lab

package verbs

import (
	"testing"
	"time"
)

// The benchmarks wait for nothing inside a round but the completions that make
// room, so they measure the software device too: compare the numbers of one
// machine with each other.

var benchModes = []struct {
	name string
	ops  SendOps
	cq   CQOptions
}{
	{"classic", 0, CQOptions{Depth: 1024}},
	{"extended", OpsRC, CQOptions{Depth: 1024, WC: WCStandard}},
}

func benchPosting(b *testing.B, each int) {
	for _, m := range benchModes {
		b.Run(m.name, func(b *testing.B) {
			p := connectedOver(b, QPOptions{MaxSend: 64, Extended: m.ops, MaxInline: 16}, m.cq, 4096, ConnectOptions{})
			batch, _ := batches(b, p.qp[0].QP)
			local, remote := p.mr[0].At(0, 8), p.mr[1].Remote().At(0)
			out := make([]Completion, 64)
			b.ReportAllocs()
			for b.Loop() {
				for i := range each {
					w := batch.Write(local, remote, uint64(i))
					if i < each-1 {
						w.Unsignaled()
					}
				}
				if err := batch.Post(); err != nil {
					b.Fatal(err)
				}
				for n := 0; n == 0; {
					n, _ = p.cq[0].Poll(out)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*each), "ns/write")
		})
	}
}

func BenchmarkPostWrite(b *testing.B)        { benchPosting(b, 1) }
func BenchmarkPostWriteBatch16(b *testing.B) { benchPosting(b, 16) }

func BenchmarkPollEmpty(b *testing.B) {
	for _, m := range benchModes {
		b.Run(m.name, func(b *testing.B) {
			cq := must[*CQ](b)(device(b).CreateCQ(m.cq))
			out := make([]Completion, 16)
			b.ReportAllocs()
			for b.Loop() {
				if n, err := cq.Poll(out); n != 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkPoll polls 16 completions that are there already.
func BenchmarkPoll(b *testing.B) {
	for _, m := range benchModes {
		b.Run(m.name, func(b *testing.B) {
			p := connectedOver(b, QPOptions{MaxSend: 256, Extended: m.ops}, m.cq, 4096, ConnectOptions{})
			batch, _ := batches(b, p.qp[0].QP)
			local, remote := p.mr[0].At(0, 8), p.mr[1].Remote().At(0)
			out := make([]Completion, 16)
			left := 0
			b.ReportAllocs()
			for b.Loop() {
				if left == 0 {
					b.StopTimer()
					for i := range 256 {
						batch.Write(local, remote, uint64(i))
					}
					if err := batch.Post(); err != nil {
						b.Fatal(err)
					}
					// The last of an ordered connection: its bytes are there
					// once all completions are.
					time.Sleep(20 * time.Millisecond)
					left = 256
					b.StartTimer()
				}
				n, err := p.cq[0].Poll(out)
				if err != nil {
					b.Fatal(err)
				}
				left -= n
			}
		})
	}
}

func BenchmarkPostRecv(b *testing.B) {
	for _, m := range benchModes {
		b.Run(m.name, func(b *testing.B) {
			dev := device(b)
			rdma(b, dev)
			pd := must[*PD](b)(dev.AllocPD())
			cq := must[*CQ](b)(dev.CreateCQ(m.cq))
			const depth = 4096
			qp := must[*RC](b)(pd.CreateRC(QPOptions{CQ: cq, MaxRecv: depth, Extended: m.ops}))
			_, batch := batches(b, qp.QP)
			posted := 0
			b.ReportAllocs()
			for b.Loop() {
				if posted+16 > depth {
					b.StopTimer()
					if err := qp.Reset(); err != nil {
						b.Fatal(err)
					}
					if err := qp.Init(0); err != nil {
						b.Fatal(err)
					}
					posted = 0
					b.StartTimer()
				}
				for i := range 16 {
					batch.Recv(Slice{}, uint64(i))
				}
				if err := batch.Post(); err != nil {
					b.Fatal(err)
				}
				posted += 16
			}
		})
	}
}

func TestPostingAndPollingAllocateNothing(t *testing.T) {
	for _, m := range benchModes {
		t.Run(m.name, func(t *testing.T) {
			p := connectedOver(t, QPOptions{Extended: m.ops, MaxSendSGE: 2, MaxRecv: 1024}, m.cq, 4096, ConnectOptions{})
			b, _ := batches(t, p.qp[0].QP)
			_, rb := batches(t, p.qp[1].QP)
			local, remote := p.mr[0].At(0, 8), p.mr[1].Remote().At(0)
			both := []Slice{p.mr[0].At(0, 8), p.mr[0].At(64, 8)}
			out, ext := make([]Completion, 16), make([]ExtCompletion, 16)
			wait := func(take func() (int, error)) {
				for n := 0; n == 0; {
					var err error
					if n, err = take(); err != nil {
						t.Fatal(err)
					}
				}
			}
			for name, f := range map[string]func(){
				"Batch.Post and CQ.Poll": func() {
					b.Write(local, remote, 1).Unsignaled()
					b.WriteV(both, remote, 2).Unsignaled()
					b.Read(local, remote, 3)
					if b.Post() != nil {
						t.Fatal("post")
					}
					wait(func() (int, error) { return p.cq[0].Poll(out) })
				},
				"CQ.PollExt": func() {
					b.Write(local, remote, 1)
					if b.Post() != nil {
						t.Fatal("post")
					}
					wait(func() (int, error) { return p.cq[0].PollExt(ext) })
				},
				"RecvBatch.Post": func() {
					rb.Recv(local, 1)
					rb.Recv(Slice{}, 2)
					if rb.Post() != nil {
						t.Fatal("post")
					}
				},
				"RequestNotify": func() { p.cq[1].RequestNotify(false) },
				"polling an empty queue": func() {
					p.cq[1].Poll(out)
					p.cq[1].PollExt(ext)
				},
			} {
				if n := testing.AllocsPerRun(100, f); n != 0 {
					t.Errorf("%s allocates %v times", name, n)
				}
			}
		})
	}
}
