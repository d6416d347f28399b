package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"
)

// probes sends packets as large as the NICs', in each direction, and looks for the
// largest that passes if they do not.
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
		p.tries, p.wait = 2, 150*time.Millisecond // many of them fail
		low, high := head+probeSize, size         // low passes, high does not
		for high-low > 1 && ctx.Err() == nil {
			middle := (low + high) / 2
			if ok, _ := passes(middle); ok {
				low = middle
			} else {
				high = middle
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		st.figure("path-mtu", float64(low), "bytes")
		return fault(fmt.Sprintf("give every interface and switch port on the way an MTU of %d bytes or more, or make the NICs' packets smaller on both sides: ip link set dev %s mtu %d",
			size, r.result.Local.Netdev, low), fmt.Errorf("packets of %d bytes, as the NICs send them, do not pass %s (%s), and of %d they do", size, way.name, because(err), low))
	}
	return nil
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
