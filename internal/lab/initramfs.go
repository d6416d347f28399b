package lab

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// earlyInit is /init of the initramfs. The kernel hands it peerdirect_agent and
// peerdirect_layer from the command line as variables. The root is shared
// read-only, and so is the layer above it if there is one; an overlay in memory
// makes both writable for the guest alone. They are cached without a look at
// the host, since what is in the lab's cache never changes.
const earlyInit = `#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
for module in $(busybox cat /modules/order); do
	busybox insmod "/modules/$module.ko"
done
share="trans=virtio,version=9p2000.L,msize=512000"
fail() { echo "peerdirect: $*"; busybox sleep 1; busybox poweroff -f; }
busybox mount -t 9p -o "ro,$share,cache=loose" root /lower || fail "the root does not mount"
lower=/lower
if [ -n "$peerdirect_layer" ]; then
	busybox mount -t 9p -o "ro,$share,cache=loose" layer /layer || fail "the layer does not mount"
	lower=/layer:/lower
fi
busybox mount -t tmpfs -o mode=755 upper /upper
busybox mkdir /upper/data /upper/work
busybox mount -t overlay -o lowerdir=$lower,upperdir=/upper/data,workdir=/upper/work root /root || fail "the overlay does not mount"
busybox mount -t 9p -o "ro,$share,cache=loose" bin /root/peerdirect/bin || fail "the folder of the executable does not mount"
for fs in proc sys dev; do busybox mount -o move /$fs /root/$fs; done
exec busybox switch_root /root "/peerdirect/bin/$peerdirect_agent" lab guest
fail "no agent"
`

// writeInitramfs makes the initramfs of the root at tree: busybox, the modules
// that modules.sh laid aside, and earlyInit. It is left uncompressed: it is
// 4 MB, and the guest would unpack it without hardware help.
func writeInitramfs(tree, path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	buf := bufio.NewWriter(f)
	w := newCPIO(buf)
	for _, dir := range []string{"bin", "dev", "layer", "lower", "modules", "proc", "root", "sys", "upper"} {
		w.dir(dir)
	}
	w.node("dev/console", 5, 1)
	w.file("init", 0o755, []byte(earlyInit))

	copyIn := func(name string, perm uint32, from ...string) error {
		data, err := os.ReadFile(filepath.Join(append([]string{tree}, from...)...))
		if err == nil {
			w.file(name, perm, data)
		}
		return err
	}
	// Debian moved busybox under usr in trixie.
	if copyIn("bin/busybox", 0o755, "usr", "bin", "busybox") != nil {
		if err := copyIn("bin/busybox", 0o755, "bin", "busybox"); err != nil {
			return err
		}
	}
	order, err := os.ReadFile(filepath.Join(tree, "peerdirect", "early", "order"))
	if err != nil {
		return err
	}
	w.file("modules/order", 0o644, order)
	for _, name := range strings.Fields(string(order)) {
		if err := copyIn("modules/"+name+".ko", 0o644, "peerdirect", "early", name+".ko"); err != nil {
			return err
		}
	}
	if err := w.close(); err != nil {
		return err
	}
	return buf.Flush()
}

// cpioWriter writes the one archive format that the kernel unpacks:
// "newc", Documentation/driver-api/early-userspace/buffer-format.rst. Every
// field is eight hexadecimal digits; names and contents are padded to 4 bytes.
type cpioWriter struct {
	w   io.Writer
	ino uint32
	err error // the first, given by close
}

func newCPIO(w io.Writer) *cpioWriter { return &cpioWriter{w: w} }

const (
	modeDir  = 0o040000
	modeChar = 0o020000
	modeFile = 0o100000
)

func (c *cpioWriter) dir(name string) { c.entry(name, modeDir|0o755, 0, 0, nil) }
func (c *cpioWriter) file(name string, perm uint32, data []byte) {
	c.entry(name, modeFile|perm, 0, 0, data)
}
func (c *cpioWriter) node(name string, major, minor uint32) {
	c.entry(name, modeChar|0o600, major, minor, nil)
}

// close ends the archive.
func (c *cpioWriter) close() error {
	c.entry("TRAILER!!!", 0, 0, 0, nil)
	return c.err
}

func (c *cpioWriter) entry(name string, mode, major, minor uint32, data []byte) {
	c.ino++
	links := uint32(1)
	if mode&modeDir == modeDir {
		links = 2
	}
	const mtime = 0 // the same archive from the same root
	header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.ino, mode, 0, 0, links, mtime, len(data), 0, 0, major, minor, len(name)+1, 0)
	c.write(append([]byte(header+name), make([]byte, 1+pad4(len(header)+len(name)+1))...))
	c.write(data)
	c.write(make([]byte, pad4(len(data))))
}

func (c *cpioWriter) write(p []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(p)
	}
}

// pad4 gives the bytes that lack from n to a multiple of 4.
func pad4(n int) int { return -n & 3 }
