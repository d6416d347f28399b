package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

// probes sends packets as large as the NICs', in each direction, and looks for the
// largest that passes if they do not. That is an error but of iWARP, where it is told.
func (r *run) probes(ctx context.Context, st *Step, here, there netip.Addr, at *probe) error {
	head, size := 8+ipHeader(here), r.largest(here)
	if size < head+probeSize { // the peer may have said anything
		st.saw(fmt.Sprintf("nothing is probed: the interfaces' MTUs are not known: %d bytes here, %d there", r.result.Local.NetdevMTU, r.result.Remote.NetdevMTU))
		return nil
	}
	c, err := udp(ctx, here)
	if err != nil {
		st.saw(fmt.Sprintf("nothing is probed from %v: %v", here, errnoOf(err)))
		return nil
	}
	defer c.Close()
	p := &prober{c: c, to: netip.AddrPortFrom(there, at.Port), token: at.Token, tries: 3, wait: 300 * time.Millisecond}
	ok, err := p.try(ctx, probeSize, probeSize)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !ok {
		st.saw(fmt.Sprintf("small probes to UDP port %d of %v are not answered (%s): a firewall drops them, and only what the kernel knows is known", at.Port, there, because(err)))
		return nil
	}
	for _, way := range []struct {
		name        string
		there, back bool
	}{{fmt.Sprintf("from %v to %v", here, there), true, false}, {fmt.Sprintf("from %v to %v", there, here), false, true}} {
		passes := func(bytes int) (bool, error) {
			out, in := probeSize, probeSize
			if way.there {
				out = bytes - head
			} else {
				in = bytes - head
			}
			return p.try(ctx, out, in)
		}
		ok, err := passes(size)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ok {
			st.saw(fmt.Sprintf("packets of %d bytes pass %s", size, way.name))
			continue
		}
		low := p.widest(ctx, head+probeSize, size, passes)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		lost := fmt.Errorf("packets of %d bytes, as the NICs send them, do not pass %s (%s), and of %d they do", size, way.name, because(err), low)
		help := fmt.Sprintf("give every interface and switch port on the way an MTU of %d bytes or more, or make the NICs' packets smaller on both sides: ip link set dev %s mtu %d",
			size, r.result.Local.Netdev, low)
		if r.result.Local.Transport != transfer.IWARP {
			st.figure("path-mtu", float64(low), "bytes")
			return fault(help, lost)
		}
		// Its packets are TCP's, which finds a smaller MTU, and no filter's of UDP.
		st.warn(lost.Error()+": whether TCP finds its way is large-write's to tell", help)
	}
	return nil
}

// widest looks for the largest packet that passes, in bytes: low does, high does not. It
// ends with half of the step's time, for the other direction needs some.
func (p *prober) widest(ctx context.Context, low, high int, passes func(int) (bool, error)) int {
	tries, wait := p.tries, p.wait
	defer func() { p.tries, p.wait = tries, wait }()
	p.tries, p.wait = 2, 150*time.Millisecond // many of them fail
	end, limited := ctx.Deadline()
	end = end.Add(-time.Until(end) / 2)
	for high-low > 1 && ctx.Err() == nil && (!limited || time.Now().Before(end)) {
		middle := (low + high) / 2
		if ok, _ := passes(middle); ok {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// because says why a probe is not answered.
func because(err error) string {
	switch {
	case err == nil:
		return "nothing comes back"
	case errors.Is(err, syscall.EMSGSIZE):
		return "this machine's interface does not take them: EMSGSIZE"
	}
	return errnoOf(err).Error()
}
