package device

import "github.com/peerdirect/peerdirect/efa/wire"

type peerKey struct {
	gid wire.GID
	pd  uint16
}

// addressHandle is a peer's address in a protection domain. Drivers before Linux
// 7.3 create one for each user's handle, so creating the same again gives the same
// number and counts.
type addressHandle struct {
	key    peerKey
	number uint16
	refs   int
	dead   bool
	// answered: the peer has responded once, so that silence from now on is
	// "unresponsive" and no longer "unreachable". Only the worker touches it.
	answered bool
	// What the worker found the address to be, and at which state of the fabric.
	flow    *flow
	changes uint64
}

// CreateAH makes a handle of an address in a protection domain. While it exists,
// that address may also do RDMA to queue pairs of the domain.
func (d *Device) CreateAH(pd uint16, gid wire.GID) (uint16, error) {
	const op = "create AH"
	if err := d.control(op); err != nil {
		return 0, err
	}
	defer d.done()
	p := d.pds.get(uint32(pd))
	if p == nil {
		return 0, illegal(op, "no PD %d", pd)
	}
	key := peerKey{gid, pd}
	if ah := d.ahByPeer[key]; ah != nil {
		ah.refs++
		return ah.number, nil
	}
	ah := &addressHandle{key: key, refs: 1}
	n, ok := d.ahs.put(ah)
	if !ok {
		return 0, exhausted(op, "all %d address handles are in use", d.opts.MaxAHs)
	}
	ah.number = uint16(n)
	d.ahByPeer[key] = ah
	d.ahGen++
	p.uses++
	return ah.number, nil
}

// DestroyAH gives a handle back. With the last user gone, requests in flight
// through it end as INVALID_AH.
func (d *Device) DestroyAH(pd, ah uint16) error {
	const op = "destroy AH"
	if err := d.control(op); err != nil {
		return err
	}
	defer d.done()
	h := d.ahs.get(uint32(ah))
	if h == nil || h.key.pd != pd {
		return illegal(op, "no AH %d in PD %d", ah, pd)
	}
	if h.refs--; h.refs > 0 {
		return nil
	}
	h.dead = true
	d.ahs.remove(uint32(ah))
	delete(d.ahByPeer, h.key)
	d.ahGen++
	d.pds.get(uint32(pd)).uses--
	return nil
}
