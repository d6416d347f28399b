package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// acceleratorsUp loads the accelerators' driver and gives the names by which
// package dmabuf knows the n accelerators.
func acceleratorsUp(n int) (names []string, err error) {
	if err := os.MkdirAll(sharePath("accel"), 0o755); err != nil {
		return nil, err
	}
	if err := mountShare("accel", unix.MS_RDONLY, "mmap"); err != nil {
		return nil, err
	}
	module, err := os.Open(sharePath("accel") + "/" + acceleratorModule)
	if err != nil {
		return nil, err
	}
	defer module.Close()
	if err := unix.FinitModule(int(module.Fd()), "", 0); err != nil {
		return nil, fmt.Errorf("loading %s: %w", acceleratorModule, err)
	}
	for i := range n {
		node := fmt.Sprintf("/dev/peerdirect_accel%d", i)
		if _, err := os.Stat(node); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%d of %d accelerators are there: no %s", i, n, node)
		}
		names = append(names, fmt.Sprintf("accel:%d", i))
	}
	return names, nil
}
