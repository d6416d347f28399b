package nldev

import (
	"context"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// FRMRPool is a device's stock of memory regions of one shape, kept for fast
// registration instead of being destroyed. Not in Linux 6.12, in 7.2.
type FRMRPool struct {
	Device      string
	DeviceIndex uint32
	Key         FRMRKey
	Queued      uint32 // regions in stock
	InUse       uint64 // regions handed out
	MaxInUse    uint64 // the most that InUse has been
	Pinned      uint32 // regions that ageing leaves in stock
}

// FRMRKey is what the regions of a pool have in common.
type FRMRKey struct {
	ATS             bool   // addresses are translated by the device
	AccessFlags     uint32 // IB_UVERBS_ACCESS_*
	VendorKey       uint64 // the driver's own
	KernelVendorKey uint64 // not 0 only of pools for the kernel's use
	DMABlocks       uint64 // that a region maps at most
}

func (p *FRMRPool) decode(r *attrReader) {
	for r.next() {
		switch r.kind {
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY:
			r.nested(p.Key.decode)
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_QUEUE_HANDLES:
			p.Queued = r.uint32()
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_IN_USE:
			p.InUse = r.uint64()
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_MAX_IN_USE:
			p.MaxInUse = r.uint64()
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES:
			p.Pinned = r.uint32()
		}
	}
}

func (k *FRMRKey) decode(r *attrReader) {
	for r.next() {
		switch r.kind {
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS:
			k.ATS = r.bool()
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS:
			k.AccessFlags = r.uint32()
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY:
			k.VendorKey = r.uint64()
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_KERNEL_VENDOR_KEY:
			k.KernelVendorKey = r.uint64()
		case abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS:
			k.DMABlocks = r.uint64()
		}
	}
}

// FRMRPools lists the pools of devices whose driver keeps any; of the filter,
// Device and DriverDetails (pools for the kernel's use) count.
func (c *Client) FRMRPools(ctx context.Context, f Filter) ([]FRMRPool, error) {
	const op = "list pools of memory regions"
	var pools []FRMRPool
	err := c.forEach(ctx, op, f.Device, func(d Device) error {
		bodies, err := c.ask(ctx, request{
			op: op, device: d, command: abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET, dump: true,
			attrs:   kind{}.request(d, f),
			invalid: "this kernel has no pools of memory regions (7.2 has)",
		})
		if err != nil {
			return err
		}
		for _, body := range bodies {
			err := decode(op, d.Name, body, func(r *attrReader) {
				for r.next() {
					if r.kind != abi.RDMA_NLDEV_ATTR_FRMR_POOLS {
						continue
					}
					r.each(abi.RDMA_NLDEV_ATTR_FRMR_POOL_ENTRY, func(r *attrReader) {
						p := FRMRPool{Device: d.Name, DeviceIndex: d.Index}
						p.decode(r)
						pools = append(pools, p)
					})
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return pools, err
}
