package nldev

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// CharDev is the character device by which processes open an RDMA device.
type CharDev struct {
	Name         string // of the node in /dev/infiniband: uverbs0
	Major, Minor uint32 // of the node
	// ABI is the version of what the driver and its user library say to each
	// other.
	ABI uint32
	// Driver says which user library that is; the kernel names the driver of a
	// software device nowhere else.
	Driver DriverID
}

func (d *CharDev) decode(r *attrReader) {
	for r.next() {
		switch r.kind {
		case abi.RDMA_NLDEV_ATTR_CHARDEV_NAME:
			d.Name = r.text()
		case abi.RDMA_NLDEV_ATTR_CHARDEV:
			number := r.uint64() // new_encode_dev of include/linux/kdev_t.h, as stat's st_rdev
			d.Major, d.Minor = unix.Major(number), unix.Minor(number)
		case abi.RDMA_NLDEV_ATTR_CHARDEV_ABI:
			d.ABI = uint32(r.uint64()) // the upper half is reserved
		case abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID:
			d.Driver = DriverID(r.uint32())
		}
	}
}

// CharDev gives the character device of an RDMA device. The kernel loads
// ib_uverbs for it if need be and it can; the error is ErrUnsupported if not.
func (c *Client) CharDev(ctx context.Context, device string) (CharDev, error) {
	const op = "read the character device"
	d, err := c.device(ctx, op, device)
	if err != nil {
		return CharDev{}, err
	}
	bodies, err := c.ask(ctx, request{
		op: op, device: d, command: abi.RDMA_NLDEV_CMD_GET_CHARDEV,
		attrs:   d.handle().text(abi.RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs"),
		invalid: "this kernel does not tell",
	})
	if err != nil {
		var failure *Error
		if errors.As(err, &failure) && failure.Errno == unix.EOPNOTSUPP && failure.Reason == "" {
			failure.Reason = "processes cannot open it"
			failure.Remedy = "load what they need: modprobe ib_uverbs"
		}
		return CharDev{}, err
	}
	var found CharDev
	for _, body := range bodies {
		if err := decode(op, d.Name, body, found.decode); err != nil {
			return CharDev{}, err
		}
	}
	return found, nil
}
