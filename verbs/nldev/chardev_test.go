package nldev

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// The node's number is 231:4098, minors above 255 on the far side of the major.
var charDevBody = attrs(nil).
	uint32(abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, 17).
	uint64(abi.RDMA_NLDEV_ATTR_CHARDEV, 0x100e702).
	uint64(abi.RDMA_NLDEV_ATTR_CHARDEV_ABI, 1<<32|7).
	text(abi.RDMA_NLDEV_ATTR_CHARDEV_NAME, "uverbs4098")

func TestCharDev(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_GET_CHARDEV: {charDevBody}}.kernel)
	got, err := c.CharDev(t.Context(), "rxe0")
	check(t, got, err, CharDev{Name: "uverbs4098", Major: 231, Minor: 4098, ABI: 7, Driver: 17})
	if got.Driver.String() != "efa" || DriverID(99).String() != "UNKNOWN(99)" {
		t.Errorf("words: %s %s", got.Driver, DriverID(99))
	}
	if _, err := c.CharDev(t.Context(), "absent"); !errors.Is(err, ErrNoDevice) {
		t.Errorf("a device that is not there: %v", err)
	}
}

// A kernel that cannot load ib_uverbs, one that does not know the command, and
// a device that goes in between.
func TestNoCharDev(t *testing.T) {
	for _, test := range []struct {
		errno, again syscall.Errno
		class        error
		words        string
	}{
		{unix.EOPNOTSUPP, 0, ErrUnsupported, "modprobe ib_uverbs"},
		{unix.EINVAL, 0, ErrUnsupported, "does not tell"},
		{unix.EINVAL, unix.EINVAL, ErrNoDevice, "has gone"},
	} {
		c, _ := connect(t, func(request message) [][]message {
			switch {
			case command(request) == abi.RDMA_NLDEV_CMD_GET_CHARDEV:
				return refuse(request, test.errno, "")
			case request.flags&unix.NLM_F_DUMP == 0 && test.again != 0:
				return refuse(request, test.again, "")
			}
			return answer(request, 0, rxe0)
		})
		if _, err := c.CharDev(t.Context(), "rxe0"); !errors.Is(err, test.class) || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%v: %v", test.errno, err)
		}
	}
}
