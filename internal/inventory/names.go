package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/nldev"
)

// missing is a name that is none of those that are there.
type missing struct {
	name  string
	there []string
}

func (m *missing) Error() string {
	return fmt.Sprintf("no RDMA device %s; there is %s", m.name, strings.Join(m.there, ", "))
}

func (m *missing) Unwrap() error { return ErrNoDevice }

// names lists the devices that any source knows, in their natural order.
func (c *collector) names(ctx context.Context) ([]string, error) {
	set := map[string]bool{}
	found, err := deviceNames(c.root)
	if err != nil {
		c.fail("sysfs", "", 0, err)
	}
	for _, name := range found {
		set[name] = true
	}
	c.listed, c.seen = map[string]nldev.Device{}, map[string]verbs.DeviceInfo{}
	if c.netlink != nil {
		devices, err := c.netlink.Devices(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			c.fail("netlink", "", 0, err)
		}
		for _, d := range devices {
			set[d.Name] = true
			c.listed[d.Name] = d
		}
	}
	if c.library && len(set) > 0 {
		infos, err := verbs.Devices()
		if err != nil {
			c.fail("verbs", "", 0, err)
		}
		for _, info := range infos {
			set[info.Name] = true
			c.seen[info.Name] = info
		}
	}
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.SortFunc(names, natural)
	return names, nil
}

// nothing says why there is no device, in one line.
func (c *collector) nothing() error {
	// What could not be read may hold devices.
	for _, e := range c.failed {
		if e.Part == "sysfs" && errors.Is(e, fs.ErrPermission) {
			return e
		}
	}
	switch {
	case !c.live:
		return fmt.Errorf("no RDMA device: there is none below sys/class/infiniband of that folder%w", quiet{ErrNoDevice})
	case c.noRDMA != nil:
		var e *nldev.Error
		if errors.As(c.noRDMA, &e) && errors.Is(e, ErrNoDevice) {
			return fmt.Errorf("no RDMA device: %s; %s%w", e.Reason, e.Remedy, quiet{ErrNoDevice})
		}
		return c.noRDMA
	}
	for _, e := range c.failed {
		if e.Part == "netlink" {
			return e
		}
	}
	return fmt.Errorf("no RDMA device on this machine; load its driver, or make one with: rdma link add rxe0 type rxe netdev DEV%w", quiet{ErrNoDevice})
}

// quiet adds a class to an error whose text says it already.
type quiet struct{ error }

func (quiet) Error() string { return "" }

func (q quiet) Unwrap() error { return q.error }

// natural compares names with their numbers as numbers: mlx5_2 before mlx5_10.
func natural(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			na, nb := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if len(na) != len(nb) {
				return len(na) - len(nb)
			}
			if c := strings.Compare(na, nb); c != 0 {
				return c
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// Names lists the devices of this machine, none on an error.
func Names() []string {
	names, _ := deviceNames(os.DirFS("/"))
	slices.SortFunc(names, natural)
	return names
}
