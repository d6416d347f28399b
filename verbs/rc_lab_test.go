//go:build lab

package verbs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"
)

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*7 + seed
	}
}

func TestEveryOperationOfARCMovesItsBytes(t *testing.T) {
	for _, mode := range []struct {
		name string
		ext  SendOps
	}{{"classic", 0}, {"extended", OpsRC}} {
		t.Run(mode.name, func(t *testing.T) {
			const size = 64 << 10
			p := connected(t, QPOptions{MaxInline: 64, MaxSendSGE: 4, Extended: mode.ext}, size, ConnectOptions{})
			b := p.qp[0].Batch()
			defer b.Close()
			rb := p.qp[1].RecvBatch()
			defer rb.Close()
			mine, theirs := p.mem[0].Bytes(), p.mem[1].Bytes()
			remote := p.mr[1].Remote()
			post := func() {
				t.Helper()
				if err := b.Post(); err != nil {
					t.Fatal(err)
				}
				for _, c := range complete(t, p.cq[0], 1) {
					if err := c.Err(); err != nil {
						t.Fatal(err)
					}
				}
			}

			fill(mine, 1)
			b.Write(p.mr[0].At(0, size), remote.At(0), 1)
			post()
			if !bytes.Equal(mine, theirs) {
				t.Error("WRITE: the bytes differ")
			}

			fill(theirs, 2)
			b.Read(p.mr[0].At(100, 5000), remote.At(300), 2)
			post()
			if !bytes.Equal(mine[100:5100], theirs[300:5300]) {
				t.Error("READ: the bytes differ")
			}

			rb.Recv(p.mr[1].At(0, 4096), 77)
			rb.Recv(Slice{}, 78)
			if err := rb.Post(); err != nil {
				t.Fatal(err)
			}
			fill(mine, 3)
			b.SendImm(p.mr[0].At(0, 64), 0xa1b2c3d4, 3).Flags(Inline)
			post()
			b.WriteImm(p.mr[0].At(64, 64), remote.At(8192), 0x01020304, 4)
			post()
			got := complete(t, p.cq[1], 2)
			if imm, ok := got[0].Imm(); got[0].ID != 77 || got[0].Bytes != 64 || !ok || imm != 0xa1b2c3d4 {
				t.Errorf("SEND with immediate arrived as %+v", got[0])
			}
			if imm, ok := got[1].Imm(); got[1].ID != 78 || got[1].Bytes != 64 || !ok || imm != 0x01020304 || got[1].Opcode != CompletedRecvWriteImm {
				t.Errorf("WRITE with immediate arrived as %+v", got[1])
			}
			if !bytes.Equal(theirs[:64], mine[:64]) || !bytes.Equal(theirs[8192:8256], mine[64:128]) {
				t.Error("SEND or WRITE with immediate: the bytes differ")
			}

			binary.NativeEndian.PutUint64(theirs[512:], 40)
			b.FetchAdd(p.mr[0].At(0, 8), remote.At(512), 2, 5)
			post()
			b.CompareSwap(p.mr[0].At(8, 8), remote.At(512), 42, 7, 6)
			post()
			if a, c, now := binary.NativeEndian.Uint64(mine), binary.NativeEndian.Uint64(mine[8:]), binary.NativeEndian.Uint64(theirs[512:]); a != 40 || c != 42 || now != 7 {
				t.Errorf("atomics gave %d and %d and left %d, want 40, 42 and 7", a, c, now)
			}

			b.WriteV([]Slice{p.mr[0].At(0, 10), p.mr[0].At(1000, 20), p.mr[0].At(3000, 30)}, remote.At(20000), 7)
			post()
			want := append(append(append([]byte{}, mine[:10]...), mine[1000:1020]...), mine[3000:3030]...)
			if !bytes.Equal(theirs[20000:20060], want) {
				t.Error("gathered WRITE: the bytes differ")
			}
		})
	}
}

func TestAnEventWakesTheWaiterAndADeadlineEndsIt(t *testing.T) {
	dev := device(t)
	rdma(t, dev)
	ch := must[*Channel](t)(dev.CreateChannel())
	pd := must[*PD](t)(dev.AllocPD())
	cq := must[*CQ](t)(dev.CreateCQ(CQOptions{Channel: ch}))
	qp := must[*RC](t)(pd.CreateRC(QPOptions{CQ: cq}))

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := ch.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waiting for nothing gave %v", err)
	}
	for range 3 * ackBatch {
		if err := cq.RequestNotify(false); err != nil {
			t.Fatal(err)
		}
		rb := qp.RecvBatch()
		rb.Recv(Slice{}, 9)
		if err := rb.Post(); err != nil {
			t.Fatal(err)
		}
		rb.Close()
		// A queue pair in error flushes its receives: an event without a peer.
		if err := qp.Fail(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		got, err := ch.Wait(ctx)
		cancel()
		if err != nil || got != cq {
			t.Fatalf("waited and got %v, %v", got, err)
		}
		if c := complete(t, cq, 1)[0]; c.Status != StatusFlushed || c.ID != 9 {
			t.Fatalf("completion %+v", c)
		}
		if err := qp.Reset(); err != nil {
			t.Fatal(err)
		}
		if err := qp.Init(0); err != nil {
			t.Fatal(err)
		}
	}
}
