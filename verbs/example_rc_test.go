package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
)

// Two queue pairs of one device, connected to each other: one writes into the other's
// memory and raises an immediate. Between two machines the endpoints and the remote
// region are exchanged first, as package exchange does.
func ExamplePD_CreateRC() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dev, err := verbs.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close() // what was made last is closed first
	pd, err := dev.AllocPD()
	if err != nil {
		log.Fatal(err)
	}
	defer pd.Close()
	buf, err := verbs.NewBuffer(8192, verbs.BufferOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Close()
	mr, err := pd.Register(buf.Bytes(), verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer mr.Close()
	events, err := dev.CreateChannel()
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	cq, err := dev.CreateCQ(verbs.CQOptions{Channel: events})
	if err != nil {
		log.Fatal(err)
	}
	defer cq.Close()

	var qp [2]*verbs.RC
	var at [2]verbs.Endpoint
	for i := range qp {
		if qp[i], err = pd.CreateRC(verbs.RCOptions{CQ: cq}); err != nil {
			log.Fatal(err)
		}
		defer qp[i].Close()
		if at[i], err = qp[i].Endpoint(); err != nil {
			log.Fatal(err)
		}
	}
	for i := range qp {
		if err := qp[i].Connect(at[1-i], verbs.ConnectOptions{}); err != nil {
			log.Fatal(err) // names the state or the attribute that was wrong
		}
	}

	receives := qp[1].RecvBatch()
	defer receives.Close()
	receives.Recv(verbs.Slice{}, 2) // an immediate takes it, and writes nothing to it
	if err := receives.Post(); err != nil {
		log.Fatal(err)
	}
	copy(buf.Bytes(), "by the NIC")
	batch := qp[0].Batch()
	defer batch.Close()
	batch.WriteImm(mr.At(0, 10), mr.Remote().At(4096), 7, 1)
	if err := batch.Post(); err != nil {
		log.Fatal(err)
	}

	for range 2 { // the write's, and the receive's
		c, err := next(ctx, cq)
		if err != nil {
			log.Fatal(err)
		}
		if imm, ok := c.Imm(); ok && c.Opcode == verbs.CompletedRecvWriteImm { // rxe flags the sender's, too
			fmt.Printf("%d: %s\n", imm, buf.Bytes()[4096:4106])
		}
	}
}

// next waits for a completion. What came before the queue was armed raises no event,
// so it is polled once more before the wait, which holds no thread.
func next(ctx context.Context, q *verbs.CQ) (verbs.Completion, error) {
	var done [1]verbs.Completion
	for armed := false; ; armed = !armed {
		if n, err := q.Poll(done[:]); n > 0 || err != nil {
			return done[0], errors.Join(err, done[0].Err())
		}
		var err error
		if armed {
			_, err = q.Channel().Wait(ctx)
		} else {
			err = q.RequestNotify(false)
		}
		if err != nil {
			return verbs.Completion{}, err
		}
	}
}
