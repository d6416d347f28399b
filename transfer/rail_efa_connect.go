package transfer

import (
	"context"
	"fmt"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// Frames of the control connection by which EFA rails connect.
const (
	typeEFAOffer = exchange.TypeUser + 16 + iota
	typeEFAJoin
	typeEFALink
)

// efaOffer is what a peer must know of an endpoint.
type efaOffer struct {
	Device  string           `json:"device"`
	Address efa.Address      `json:"address"`
	Notice  efa.RemoteRegion `json:"notice"`           // a write without bytes needs a key, too
	Fabric  string           `json:"fabric,omitempty"` // an embedded device's: only those on it are reached
}

func (r *EFA) connect(ctx context.Context, via *exchange.Conn, p *efaPeer) error {
	own := efaOffer{Device: r.info.Device, Address: r.ep.Address(), Notice: r.notice.mr.Remote()}
	if e := r.options.embedded; e != nil {
		own.Fabric = e.id
	}
	if err := via.Send(ctx, typeEFAOffer, own); err != nil {
		return err
	}
	var peer efaOffer
	if err := via.Receive(ctx, typeEFAOffer, &peer); err != nil {
		return err
	}
	switch {
	case peer.Address.GID.IsZero():
		return fmt.Errorf("%w: the endpoint of the peer's %.32q has no GID", exchange.ErrProtocol, peer.Device)
	case peer.Notice.Length < MinMessage:
		return fmt.Errorf("%w: the peer's %.32q has no memory for notices", exchange.ErrProtocol, peer.Device)
	case (own.Fabric == "") != (peer.Fabric == ""):
		return fmt.Errorf("%w: only one side's EFA device is embedded", exchange.ErrMismatch)
	}
	var err error
	if own.Fabric != peer.Fabric {
		if p.link, err = linkFabrics(ctx, via, r.options.embedded.fabric, r.dev.Device()); err != nil {
			return err
		}
	}
	if p.ah, err = r.dev.CreateAH(peer.Address.GID); err != nil {
		return err
	}
	p.to = p.ah.To(peer.Address.QPN, peer.Address.QKey)
	p.notice = peer.Notice.At(0)
	name := efaName(p.ah.Number(), peer.Address.QPN)
	if r.byName[name] != nil {
		return fmt.Errorf("%w: %v is connected already", exchange.ErrProtocol, peer.Address)
	}
	r.byName[name] = p
	return via.Barrier(ctx)
}

// efaName is what a receive's completion tells of who sent.
func efaName(ah, qpn uint16) uint32 { return uint32(ah)<<16 | uint32(qpn) }
