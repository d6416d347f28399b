package lab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// environment gives what the command runs with.
func (s *guestSetup) environment() []string {
	var peers []string
	for n, a := range s.Addrs {
		if n != s.Node {
			peers = append(peers, a)
		}
	}
	return append([]string{
		"PATH=" + guestPath,
		"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8", "TERM=" + cmp.Or(s.Term, "dumb"),
		fmt.Sprintf("PEERDIRECT_NODE=%d", s.Node),
		fmt.Sprintf("PEERDIRECT_NODES=%d", len(s.Addrs)),
		"PEERDIRECT_ADDR=" + s.Addrs[s.Node],
		"PEERDIRECT_ADDRS=" + strings.Join(s.Addrs, ","),
		"PEERDIRECT_PEERS=" + strings.Join(peers, ","),
		"PEERDIRECT_DEVICE=" + s.device(),
		"PEERDIRECT_EFA=" + strings.Join(s.efaNames, ","),
		"PEERDIRECT_ACCELERATORS=" + strings.Join(s.acceleratorNames, ","),
		"PEERDIRECT_KERNEL=" + s.Kernel,
	}, s.Env...)
}

// device names the RDMA device that a command is to use: the link's, or else
// the first EFA device.
func (s *guestSetup) device() string {
	if s.Link == LinkNone && len(s.efaNames) > 0 {
		return s.efaNames[0]
	}
	return s.Link.device()
}

const guestPath = "/peerdirect/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// execute runs the command and gives its status.
func execute(s *guestSetup, conn *frameConn) int {
	// LookPath and the shell of an interactive session use the same PATH, and
	// a relative name begins where the command will run.
	os.Setenv("PATH", guestPath)
	if err := os.Chdir(sharePath("src")); err != nil {
		fmt.Fprintf(frameWriter{conn, frameStderr}, "peerdirect: %v\n", err)
		return 126
	}
	path, err := exec.LookPath(s.Command[0])
	if err != nil {
		fmt.Fprintf(frameWriter{conn, frameStderr}, "peerdirect: %s: not found in the guest's PATH, %s\n", s.Command[0], guestPath)
		return 127
	}
	attr := &os.ProcAttr{Dir: sharePath("src"), Env: s.environment(), Sys: &unix.SysProcAttr{Setsid: true}}
	drain, started, err := commandStreams(s, conn, attr)
	if err != nil {
		fmt.Fprintf(frameWriter{conn, frameStderr}, "peerdirect: %v\n", err)
		return 126
	}
	process, err := os.StartProcess(path, s.Command, attr)
	started()
	if err != nil {
		fmt.Fprintf(frameWriter{conn, frameStderr}, "peerdirect: %v\n", err)
		return 126
	}
	status := reap(process.Pid)
	// Whoever the command left behind holds its pipes: end them, and what was
	// written before is read to its end.
	unix.Kill(-1, unix.SIGKILL)
	drain()
	return status
}

// reap waits for the child pid, and, as process 1 must, for whichever orphans
// end before it.
func reap(pid int) int {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR, err == nil && got != pid:
		case err != nil:
			return 126
		case ws.Signaled():
			return 128 + int(ws.Signal())
		default:
			return ws.ExitStatus()
		}
	}
}

// commandStreams gives the command its descriptors: pipes, or a terminal. It
// returns drain, which waits until all output is with the host, and started, to
// be called once the command has its descriptors.
func commandStreams(s *guestSetup, conn *frameConn, attr *os.ProcAttr) (drain, started func(), err error) {
	if s.Window != nil {
		return terminalStreams(s, conn, attr)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	attr.Files = []*os.File{null}
	done := make(chan struct{}, 2)
	for _, kind := range []frameKind{frameStdout, frameStderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		attr.Files = append(attr.Files, w)
		go func() {
			io.Copy(frameWriter{conn, kind}, r)
			done <- struct{}{}
		}()
	}
	files := attr.Files
	return func() { <-done; <-done }, func() { closeAll(files) }, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// follow reads what the host says while the command runs.
func follow(conn *frameConn, on func(kind frameKind, payload []byte)) {
	for {
		kind, payload, err := conn.read()
		if err != nil {
			return
		}
		on(kind, payload)
	}
}

// terminalStreams puts the command on a pseudoterminal that it controls.
func terminalStreams(s *guestSetup, conn *frameConn, attr *os.ProcAttr) (drain, started func(), err error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("pseudoterminal: %w", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	resize := func(w windowSize) {
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: w.Rows, Col: w.Cols})
	}
	resize(*s.Window)
	attr.Files = []*os.File{slave, slave, slave}
	attr.Sys.Setctty = true // descriptor 0
	done := make(chan struct{})
	go func() {
		io.Copy(frameWriter{conn, frameStdout}, master) // ends with EIO once the last holder is gone
		close(done)
	}()
	go follow(conn, func(kind frameKind, payload []byte) {
		switch kind {
		case frameStdin:
			if len(payload) == 0 {
				payload = []byte{4} // what Ctrl-D sends: end of file
			}
			master.Write(payload)
		case frameResize:
			var w windowSize
			if json.Unmarshal(payload, &w) == nil {
				resize(w)
			}
		}
	})
	return func() { <-done }, func() { slave.Close() }, nil
}
