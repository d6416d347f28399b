package lab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// machine is one guest before it runs: everything that QEMU's command line is
// made of.
type machine struct {
	qemu              *root      // whose QEMU
	root              *root      // whose kernel and file system
	layer             string     // tree above the root's, or ""
	efa               []string   // sockets of vfio-user servers, one a device
	accelerators      []*os.File // their memory
	acceleratorMemory int        // of each, MiB
	module            string     // folder with the accelerators' driver
	iommu, acs        bool
	name              string
	node              int
	cpus              int
	memory            int // MiB
	accel             string
	agent             string // executable on the host
	source            string // folder on the host
	out               string // folder on the host, or ""
	logs              string // folder for copies of what console and QEMU say, or ""
	mtu               int
	extra             []string
	extraFDs          []*os.File // descriptors FirstFD and on of QEMU
}

// guest is a running QEMU.
type guest struct {
	*machine
	control net.Conn // frames
	link    net.Conn // Ethernet
	serial  net.Conn // the kernel's console
	console tailBuffer
	words   tailBuffer // QEMU's own
	process *os.Process
	done    chan struct{} // closed once QEMU has ended and all it said is here
}

// QEMU's descriptors after its standard ones.
const (
	controlFD = 3 + iota
	linkFD
	consoleFD
	// FirstFD is the descriptor of the first file that Options.QEMU gives.
	FirstFD
)

// arguments gives QEMU's command line without its name.
func (m *machine) arguments() []string {
	share := m.qemu.tree() + "/usr/share/"
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-name", m.name,
		"-L", share + "qemu", "-L", share + "seabios",
		"-kernel", m.root.kernel(),
		"-initrd", m.root.initramfs(),
		// panic=-1 with -no-reboot ends QEMU at a panic, after the kernel has
		// said why on the console. The mitigations guard against other guests
		// of a processor that this one does not have.
		"-append", m.kernelCommandLine(),
		"-chardev", fmt.Sprintf("socket,id=console,fd=%d", consoleFD), "-serial", "chardev:console",
		"-device", "virtio-rng-pci",
		"-device", "virtio-serial-pci",
		"-chardev", fmt.Sprintf("socket,id=control,fd=%d", controlFD),
		"-device", "virtserialport,chardev=control,name=" + controlPort,
		"-netdev", fmt.Sprintf("stream,id=link,server=off,addr.type=fd,addr.str=%d", linkFD),
		"-device", fmt.Sprintf("virtio-net-pci,netdev=link,mac=52:54:00:00:00:%02x,host_mtu=%d,romfile=", m.node+1, m.mtu),
	}
	pcie := pcieTree(len(m.efa), len(m.accelerators), m.acs)
	args = append(args, accelArgs(m.accel)...)
	args = append(args, memoryArguments(m.memory, m.cpus, pcie.numa)...)
	if m.iommu {
		// caching-mode: QEMU wants it where a device of another process is.
		args = append(args, "-device", "intel-iommu,caching-mode=on")
	}
	args = append(args, share9p("root", m.root.tree(), true)...)
	if m.layer != "" {
		args = append(args, share9p("layer", m.layer, true)...)
	}
	if len(m.accelerators) > 0 {
		args = append(args, share9p("accel", m.module, true)...)
	}
	args = append(args, share9p("bin", filepath.Dir(m.agent), true)...)
	args = append(args, share9p("src", m.source, true)...)
	if m.out != "" {
		args = append(args, share9p("out", m.out, false)...)
	}
	args = append(args, m.extra...)
	// Last: a device that names no bus goes to the first with a free slot, which
	// could be one of these, where only bridges fit.
	args = append(args, pcie.bridges...)
	args = append(args, efaArguments(m.efa, pcie.efa)...)
	return append(args, acceleratorArguments(pcie.accelerators, FirstFD+len(m.extraFDs), m.acceleratorMemory)...)
}

func (m *machine) kernelCommandLine() string {
	// no_timer_check: on a busy host the emulated timer's first ticks come so
	// late that the kernel takes it for broken, and panics.
	// no_e820: the firmware puts the memory of many devices below 1 TiB, where QEMU
	// tells of a reserved range for AMD's processors. A function that was removed
	// would find no place there when it comes back.
	s := "console=ttyS0 panic=-1 oops=panic no_timer_check pci=no_e820 mitigations=off peerdirect_agent=" + filepath.Base(m.agent)
	if m.layer != "" {
		s += " peerdirect_layer=1"
	}
	if m.iommu {
		// Translation is for who asks for it (vfio): addresses on the bus stay
		// what they are without.
		s += " intel_iommu=on iommu=pt"
	}
	return s
}

func accelArgs(accel string) []string {
	switch accel {
	case AccelTCG:
		return []string{"-accel", "tcg,thread=multi", "-cpu", "max"}
	case AccelICount:
		return []string{"-accel", "tcg,thread=single", "-icount", "shift=0", "-cpu", "max"}
	}
	return []string{"-accel", accel, "-cpu", "host"}
}

// share9p shares a folder as the 9p mount called tag.
func share9p(tag, dir string, readonly bool) []string {
	fsdev := fmt.Sprintf("local,id=%s,path=%s,security_model=none,multidevs=remap", tag, comma(dir))
	if readonly {
		fsdev += ",readonly=on"
	}
	return []string{"-fsdev", fsdev, "-device", fmt.Sprintf("virtio-9p-pci,fsdev=%s,mount_tag=%s", tag, tag)}
}

// comma doubles commas, QEMU's way to have one in a value.
func comma(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// qemuCommand runs a QEMU that was never installed here: its own loader takes
// its own libraries, so it needs neither chroot nor privilege.
func qemuCommand(r *root, args []string) *exec.Cmd {
	tree := r.tree()
	lib := filepath.Join(tree, "usr", "lib", "x86_64-linux-gnu")
	cmd := exec.Command(filepath.Join(tree, "lib64", "ld-linux-x86-64.so.2"),
		append([]string{
			"--library-path", lib + ":" + filepath.Join(tree, "usr", "lib"),
			filepath.Join(tree, "usr", "bin", "qemu-system-x86_64"),
		}, args...)...)
	// Nothing of the host's environment: LD_PRELOAD would load its libraries.
	cmd.Env = []string{"QEMU_MODULE_DIR=" + filepath.Join(lib, "qemu")}
	return cmd
}

// boot starts the machine. The caller ends it with kill.
func (m *machine) boot() (*guest, error) {
	if strings.ContainsAny(filepath.Base(m.agent), " \t\n\"'\\,") {
		return nil, fmt.Errorf("%s: the lab passes the executable's name on the kernel's command line, which cannot hold it: rename it", m.agent)
	}
	g := &guest{machine: m, done: make(chan struct{})}
	cmd := qemuCommand(m.qemu, m.arguments())
	for _, conn := range []*net.Conn{&g.control, &g.link, &g.serial} {
		ours, theirs, err := socketPair()
		if err != nil {
			g.close()
			return nil, err
		}
		defer theirs.Close()
		*conn = ours
		cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, m.extraFDs...)
	cmd.ExtraFiles = append(cmd.ExtraFiles, m.accelerators...)
	if m.logs != "" {
		var err error
		if g.console.file, err = os.Create(filepath.Join(m.logs, m.name+".console")); err == nil {
			g.words.file, err = os.Create(filepath.Join(m.logs, m.name+".qemu"))
		}
		if err != nil {
			g.close()
			return nil, err
		}
	}
	cmd.Stdout, cmd.Stderr = &g.words, &g.words
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // a terminal's Ctrl-C is ours to handle
	}
	started := make(chan error)
	go func() {
		// The signal comes when the thread that started the child ends, not
		// the process: keep that thread for as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		g.process = cmd.Process
		started <- err
		if err != nil {
			return
		}
		var console sync.WaitGroup
		console.Go(func() { io.Copy(&g.console, g.serial) })
		cmd.Wait() // how it ended matters less than what it said
		console.Wait()
		close(g.done)
	}()
	if err := <-started; err != nil {
		g.close()
		return nil, fmt.Errorf("starting QEMU: %w", err)
	}
	return g, nil
}

// kill ends the guest and waits until nothing of it is left.
func (g *guest) kill() {
	g.process.Kill()
	<-g.done
	g.close()
}

func (g *guest) close() {
	for _, conn := range []net.Conn{g.control, g.link, g.serial} {
		if conn != nil {
			conn.Close()
		}
	}
	for _, file := range []*os.File{g.console.file, g.words.file} {
		if file != nil {
			file.Close()
		}
	}
}

// tailBuffer keeps the end of what is written to it, and copies it all to file
// if that is set.
type tailBuffer struct {
	file *os.File

	mu   sync.Mutex
	kept []byte
}

const tailBytes = 64 << 10

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	b.kept = append(b.kept, p...)
	if over := len(b.kept) - tailBytes; over > 0 {
		b.kept = append(b.kept[:0], b.kept[over:]...)
	}
	b.mu.Unlock()
	if b.file != nil {
		b.file.Write(p)
	}
	return len(p), nil
}

// last gives the last n lines, or more if a kernel's death began before them: a
// panic's first line tells what its last only follows from.
func (b *tailBuffer) last(n int) string {
	b.mu.Lock()
	// A serial console ends lines in two characters.
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(b.kept), "\r", "")), "\n")
	b.mu.Unlock()
	from := max(0, len(lines)-n)
	for i, line := range lines {
		if strings.Contains(line, "BUG: ") || strings.Contains(line, "Oops: ") || strings.Contains(line, "Kernel panic") {
			from = min(from, i)
			break
		}
	}
	return strings.Join(lines[from:], "\n")
}

// socketPair gives two ends of a stream: one for this process, one to hand to a
// child. Nothing of it has a name in the file system.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours := os.NewFile(uintptr(fds[0]), "lab")
	theirs := os.NewFile(uintptr(fds[1]), "lab")
	defer ours.Close() // FileConn duplicates it
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// isClosed tells whether err is the end of a socket, from whichever side.
func isClosed(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrUnexpectedEOF)
}
