package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// controlPort is the name of the virtio-serial port that frames go through.
const controlPort = "org.peerdirect.lab"

// sharePath is where the guest sees a folder of the host.
func sharePath(tag string) string { return "/peerdirect/" + tag }

// Guest is process 1 of a guest: it sets the machine up as the host says, runs
// the command, and reports how it ended. It does not return.
func Guest() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "peerdirect: 'lab guest' is process 1 of the lab's machines, and nothing elsewhere")
		os.Exit(2)
	}
	if err := guest1(); err != nil {
		// The console: the host shows its end when a guest dies.
		fmt.Fprintf(os.Stderr, "peerdirect: guest: %v\n", err)
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func guest1() error {
	if err := mountGuest(); err != nil {
		return err
	}
	port, err := openControl()
	if err != nil {
		return err
	}
	conn := &frameConn{r: port, w: port}
	if err := conn.write(frameHello, nil); err != nil {
		return err
	}
	kind, payload, err := conn.read()
	if err != nil {
		return err
	}
	var setup guestSetup
	if kind != frameSetup {
		return fmt.Errorf("expected setup, got a frame of kind %q", byte(kind))
	}
	if err := json.Unmarshal(payload, &setup); err != nil {
		return err
	}
	if err := prepare(&setup); err != nil {
		conn.write(frameFailed, []byte(err.Error()))
		return err
	}
	if err := conn.write(frameReady, nil); err != nil {
		return err
	}
	if kind, _, err = conn.read(); err != nil || kind != frameStart {
		return fmt.Errorf("waiting for start: frame of kind %q: %v", byte(kind), err)
	}
	status := execute(&setup, conn)
	if err := conn.writeJSON(frameExit, guestExit{Status: status}); err != nil {
		return err
	}
	// The host ends the guest now; powering off is for a host that is gone.
	time.Sleep(5 * time.Second)
	return nil
}

// mountGuest mounts what a system has, apart from what the initramfs did.
func mountGuest() error {
	for _, m := range []struct {
		what, where, fs, options string
		required                 bool
	}{
		{"devpts", "/dev/pts", "devpts", "mode=620,ptmxmode=666", true},
		{"shm", "/dev/shm", "tmpfs", "", true},
		{"tmp", "/tmp", "tmpfs", "", true},
		{"run", "/run", "tmpfs", "mode=755", true},
		{"home", "/root", "tmpfs", "mode=700", true}, // the root's may be another user's
		{"debugfs", "/sys/kernel/debug", "debugfs", "", false},
		{"tracefs", "/sys/kernel/tracing", "tracefs", "", false},
		{"bpf", "/sys/fs/bpf", "bpf", "", false},
		{"configfs", "/sys/kernel/config", "configfs", "", false},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", "", false},
	} {
		os.MkdirAll(m.where, 0o755)
		if err := unix.Mount(m.what, m.where, m.fs, 0, m.options); err != nil && m.required {
			return fmt.Errorf("mounting %s: %w", m.where, err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2",
	} {
		os.Symlink(target, "/dev/"+name)
	}
	return nil
}

// openControl finds the control port by its name; without udev nothing else
// does.
func openControl() (*os.File, error) {
	modprobe("virtio_console")
	var port *os.File
	err := poll(5*time.Second, func() error {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, n := range names {
			if b, _ := os.ReadFile(n); strings.TrimSpace(string(b)) == controlPort {
				var err error
				port, err = os.OpenFile("/dev/"+filepath.Base(filepath.Dir(n)), os.O_RDWR, 0)
				return err
			}
		}
		return errors.New("no control port")
	})
	return port, err
}

// poll calls f until it gives nil or the time is over, and then gives its last
// error.
func poll(limit time.Duration, f func() error) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func modprobe(module ...string) error {
	out, err := exec.Command("/sbin/modprobe", module...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("modprobe %s: %w: %s", strings.Join(module, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// prepare brings the guest to where the command can run.
func prepare(s *guestSetup) error {
	name := fmt.Sprintf("node%d", s.Node)
	if err := unix.Sethostname([]byte(name)); err != nil {
		return err
	}
	hosts := "127.0.0.1 localhost\n"
	for n, addr := range s.Addrs {
		hosts += fmt.Sprintf("%s node%d\n", addr, n)
	}
	if err := os.WriteFile("/etc/hosts", []byte(hosts), 0o644); err != nil {
		return err
	}
	// mmap is the least cache with which a program can map a file: the host
	// may change this folder meanwhile. Without any, what a guest wrote is with
	// the host at once, however the guest ends.
	if err := mountShare("src", unix.MS_RDONLY, "mmap"); err != nil {
		return err
	}
	if s.Out {
		if err := mountShare("out", 0, "none"); err != nil {
			return err
		}
	}
	for what, limit := range map[int]unix.Rlimit{
		unix.RLIMIT_MEMLOCK: {Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY},
		unix.RLIMIT_NOFILE:  {Cur: 1 << 20, Max: 1 << 20},
	} {
		if err := unix.Setrlimit(what, &limit); err != nil {
			return fmt.Errorf("setrlimit: %w", err)
		}
	}
	if err := networkUp(s); err != nil {
		return err
	}
	if s.Link != LinkNone {
		// RXE computes its checksum through the crypto API, which does not
		// load the module that does it: linux 6.12 then fails the link.
		// Others have it built in, or need none.
		modprobe("-q", "crc32_generic")
		for _, m := range []string{"ib_uverbs", "rdma_ucm", moduleOf(s.Link)} {
			if err := modprobe(m); err != nil {
				return err
			}
		}
	}
	if s.Accelerators > 0 {
		var err error
		if s.acceleratorNames, err = acceleratorsUp(s.Accelerators); err != nil {
			return err
		}
	}
	for _, m := range s.Modules {
		if err := modprobe(strings.Fields(m)...); err != nil {
			return err
		}
	}
	if s.Link != LinkNone {
		if err := linkUp(s.Link); err != nil {
			return err
		}
	}
	if s.EFA > 0 {
		var err error
		if s.efaNames, err = efaUp(s.EFA); err != nil {
			return err
		}
	}
	return nil
}

func moduleOf(l Link) string {
	if l == LinkRXE {
		return "rdma_rxe"
	}
	return string(l)
}

func mountShare(tag string, flags uintptr, cache string) error {
	options := "trans=virtio,version=9p2000.L,msize=512000,cache=" + cache
	if err := unix.Mount(tag, sharePath(tag), "9p", flags, options); err != nil {
		return fmt.Errorf("mounting %s: %w", sharePath(tag), err)
	}
	return nil
}

const guestCard = "eth0"

func networkUp(s *guestSetup) error {
	if err := modprobe("virtio_net"); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("bringing lo up: %w", err)
	}
	var card netlink.Link
	if err := poll(5*time.Second, func() (err error) {
		card, err = netlink.LinkByName(guestCard)
		return err
	}); err != nil {
		return fmt.Errorf("no network card: %w", err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{
		IP: net.ParseIP(s.Addrs[s.Node]), Mask: net.CIDRMask(s.Prefix, 32),
	}}
	if err := netlink.LinkSetMTU(card, s.MTU); err != nil {
		return fmt.Errorf("setting the MTU of %s to %d: %w", guestCard, s.MTU, err)
	}
	if err := netlink.AddrAdd(card, addr); err != nil {
		return fmt.Errorf("giving %s the address %s: %w", guestCard, addr, err)
	}
	if err := netlink.LinkSetUp(card); err != nil {
		return fmt.Errorf("bringing %s up: %w", guestCard, err)
	}
	return nil
}

// linkUp makes the RDMA device and waits until its port is active and, on
// Ethernet, its table of GIDs has the address: a program that starts before
// cannot connect.
func linkUp(l Link) error {
	device := l.device()
	if err := netlink.RdmaLinkAdd(device, string(l), guestCard); err != nil {
		return fmt.Errorf("making the RDMA device %s: %w", device, err)
	}
	port := "/sys/class/infiniband/" + device + "/ports/1/"
	return poll(5*time.Second, func() error {
		state, err := os.ReadFile(port + "state")
		if err != nil {
			return err
		}
		if !strings.Contains(string(state), "ACTIVE") {
			return fmt.Errorf("port 1 of %s is %s", device, strings.TrimSpace(string(state)))
		}
		if l == LinkRXE {
			gid, err := os.ReadFile(port + "gids/1") // the IPv4 one
			if err != nil || strings.HasPrefix(string(gid), "0000:0000:0000:0000:0000:0000:") {
				return fmt.Errorf("port 1 of %s has no GID of its address", device)
			}
		}
		return nil
	})
}
