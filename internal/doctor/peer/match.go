package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/peerdirect/peerdirect/internal/fabriclink"
	"github.com/peerdirect/peerdirect/transfer"
)

// greet exchanges hellos, looks whether the NICs can be connected, and links embedded
// devices of two processes. From then on the reader has the connection.
func (r *run) greet(ctx context.Context, st *Step) error {
	dialled := r.result.Role == RoleDialler
	mine := message{Kind: kindHello, NIC: &r.result.Local, Seed: r.seed}
	if dialled {
		// A listener that has sent this side away says why in what is received.
		r.tell(mine)
	}
	m, err := r.receive(ctx)
	switch {
	case err != nil:
		return err
	case m.Error != nil:
		r.last(m)
		return m.Error.err()
	case m.Kind != kindHello:
		return malformed("it began with a %s instead of a hello", m.Kind)
	}
	r.result.Remote = *m.NIC
	if !dialled {
		r.seed = m.Seed
		if err := r.tell(mine); err != nil {
			return err
		}
	}
	st.saw("here:  "+r.result.Local.String(), "there: "+r.result.Remote.String())
	if err := fits(&r.result.Local, &r.result.Remote); err != nil {
		return err
	}
	if e := transfer.EmbeddedOf(r.o.Rail); e != nil && r.result.Remote.Fabric != e.ID() {
		if r.link, err = fabriclink.Join(ctx, r.conn, typeLink, dialled, e.Fabric()); err != nil {
			return fault("embedded devices of two processes need a second TCP connection, to a port that the listener chooses: let it pass", err)
		}
		st.saw("the two processes' devices are linked by a second TCP connection: what follows goes through it")
	}
	r.listen()
	st.Summary = r.result.Local.Transport + " on both sides"
	if v := r.result.Remote.Version; v != r.result.Local.Version {
		st.saw(fmt.Sprintf("version %q here, %q there", r.result.Local.Version, v))
	}
	return nil
}

// fits tells why two NICs cannot be connected.
func fits(a, b *NIC) error {
	cannot := func(remedy, format string, args ...any) error {
		return fault(remedy, fmt.Errorf("the two NICs cannot be connected: "+format+": %w", append(args, errors.ErrUnsupported)...))
	}
	const device, gid = "choose NICs of one kind with --device", "choose GIDs of one type and family with --gid-index; peerdirect devices -v lists them"
	switch {
	case a.Kind != b.Kind:
		return cannot(device, "this side has %s (%s), the other %s (%s)", a.Kind.Device(), a.Device, b.Kind.Device(), b.Device)
	case (a.Transport == transfer.IWARP) != (b.Transport == transfer.IWARP), a.LinkLayer != b.LinkLayer:
		return cannot(device, "this side's %s is %s on %s, the other's %s %s on %s", a.Device, a.Transport, a.LinkLayer, b.Device, b.Transport, b.LinkLayer)
	case a.Transport != b.Transport:
		return cannot(gid, "GID %s (index %d) of this side is %s, %s (index %d) of the other %s", a.GID, a.GIDIndex, a.Transport, b.GID, b.GIDIndex, b.Transport)
	case strings.HasPrefix(a.Transport, "RoCE v2") && four(a.GID) != four(b.GID):
		return cannot(gid, "one side's GID is an IPv4 address and the other's IPv6: %s (index %d) here, %s (index %d) there", a.GID, a.GIDIndex, b.GID, b.GIDIndex)
	case (a.Fabric == "") != (b.Fabric == ""):
		return malformed("a fabric called %q", b.Fabric)
	}
	return nil
}

// four tells whether a GID is of an IPv4 address.
func four(gid string) bool {
	a, err := netip.ParseAddr(gid)
	return err == nil && a.Unmap().Is4()
}
