package peer

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// counters are what the kernel counts for a NIC and its netdev.
type counters map[string]uint64

// count reads them; of a NIC that the kernel does not have there are none.
func count(root fs.FS, n *NIC) counters {
	if n.Device == "" || n.Embedded {
		return nil
	}
	c := make(counters)
	port := path.Join("sys/class/infiniband", n.Device, "ports", strconv.Itoa(n.Port))
	c.read(root, path.Join(port, "hw_counters"), n.Device+" ")
	c.read(root, path.Join(port, "counters"), n.Device+" ")
	if n.Netdev != "" {
		c.read(root, path.Join("sys/class/net", n.Netdev, "statistics"), n.Netdev+" ")
	}
	return c
}

func (c counters) read(root fs.FS, folder, prefix string) {
	list, _ := fs.ReadDir(root, folder)
	for _, f := range list {
		if v, err := strconv.ParseUint(text(root, path.Join(folder, f.Name())), 10, 64); err == nil {
			c[prefix+f.Name()] = v
		}
	}
}

// rose lists those that have risen, of what went wrong before plain traffic, in a line.
func (c counters) rose(now counters) []string {
	var wrong, traffic []string
	for name, v := range now {
		if was, ok := c[name]; ok && v > was {
			line := fmt.Sprintf("%s +%d", name, v-was)
			if strings.Contains(name, "packets") || strings.Contains(name, "bytes") || strings.Contains(name, "_pkts") || strings.Contains(name, "data") {
				traffic = append(traffic, line)
			} else {
				wrong = append(wrong, line)
			}
		}
	}
	slices.Sort(wrong)
	slices.Sort(traffic)
	if all := append(wrong, traffic...); len(all) > 0 {
		return []string{"counters that rose in this step: " + strings.Join(all[:min(len(all), 12)], ", ")}
	}
	return nil
}
