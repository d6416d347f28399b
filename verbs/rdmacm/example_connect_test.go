package rdmacm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/rdmacm"
)

// Two queue pairs of one machine connect by an address of its RDMA device, on RoCE,
// InfiniBand and iWARP alike. Between machines one side listens and the other dials.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := connect(ctx, netip.MustParseAddr("192.0.2.1")); err != nil {
		log.Fatal(err) // of an *rdmacm.Error the text has cause and remedy
	}
}

func connect(ctx context.Context, addr netip.Addr) (err error) {
	dev, err := verbs.Open("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer pd.Close()
	cq, err := dev.CreateCQ(verbs.CQOptions{})
	if err != nil {
		return err
	}
	defer cq.Close()
	var qps [2]*verbs.RC
	for i := range qps {
		if qps[i], err = pd.CreateRC(verbs.RCOptions{CQ: cq, MaxSend: 8, MaxRecv: 8}); err != nil {
			return err
		}
		defer qps[i].Close() // a second Close does nothing
	}

	l, err := rdmacm.Listen(ctx, netip.AddrPortFrom(addr, 0)) // the kernel chooses a port
	if err != nil {
		return err
	}
	defer l.Close()
	accepted := make(chan error, 1)
	var passive *rdmacm.Conn
	go func() {
		req, err := l.Accept(ctx)
		if err == nil {
			passive, err = req.Accept(ctx, rdmacm.Params{QPN: qps[0].QPN(), Modify: modifier(qps[0])})
		}
		accepted <- err
	}()
	active, err := rdmacm.Dial(ctx, addr, l.Addr(), rdmacm.Params{QPN: qps[1].QPN(), Modify: modifier(qps[1])})
	if err != nil {
		l.Close() // so that Accept ends
		return errors.Join(err, <-accepted)
	}
	if err := <-accepted; err != nil {
		return errors.Join(err, active.Close())
	}
	fmt.Println("connected:", active.Err() == nil && passive.Err() == nil)
	// The connection is closed after its queue pair, which it would fail on iWARP.
	return errors.Join(qps[0].Close(), qps[1].Close(), active.Close(), passive.Close())
}

// modifier moves a queue pair as the connection manager says: its attributes are
// libibverbs' by other names. It is not called on iWARP.
func modifier(qp *verbs.RC) func(rdmacm.QPAttr) error {
	return func(a rdmacm.QPAttr) error {
		return qp.Modify(verbs.QPAttr{
			State: verbs.QPState(a.State), PathMTU: verbs.MTU(a.PathMTU), RQPSN: a.RQPSN, SQPSN: a.SQPSN,
			DestQPN: a.DestQPN, Access: verbs.Access(a.Access), PKeyIndex: int(a.PKeyIndex), Port: int(a.Port),
			Route: verbs.Route{
				Port: int(a.AH.Port), DGID: verbs.GID(a.AH.DGID), SGIDIndex: int(a.AH.SGIDIndex), Global: a.AH.Global,
				FlowLabel: a.AH.FlowLabel, HopLimit: a.AH.HopLimit, TrafficClass: a.AH.TrafficClass,
				DLID: a.AH.DLID, SL: a.AH.SL, SrcPathBits: a.AH.SrcPathBits, StaticRate: a.AH.StaticRate,
			},
			MaxRDAtomic: a.MaxRDAtomic, MaxDestRDAtomic: a.MaxDestRDAtomic, MinRNRTimer: a.MinRNRTimer,
			Timeout: a.Timeout, RetryCount: a.RetryCount, RNRRetry: a.RNRRetry,
		}, verbs.AttrMask(a.Mask))
	}
}
