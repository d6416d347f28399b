package dmabufprobe

import (
	"strings"

	"github.com/peerdirect/peerdirect/internal/umem"
	"golang.org/x/sys/unix"
)

// kernelLog reads what the kernel logs from its opening on, of peer-to-peer
// paths. Where this process may not, nothing is read.
type kernelLog int

func openKernelLog() kernelLog {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		unix.Close(fd)
		return -1
	}
	return kernelLog(fd)
}

func (l kernelLog) read() []string {
	var found []string
	buf := make([]byte, 8192) // a record at a time; the kernel cuts none
	for l >= 0 {
		n, err := unix.Read(int(l), buf)
		if err == unix.EPIPE || err == unix.EINTR {
			continue // records were overwritten before they were read
		}
		if err != nil || n <= 0 {
			break
		}
		if text := tellsOfPeers(string(buf[:n])); text != "" {
			found = append(found, text)
		}
	}
	return found
}

func (l kernelLog) close() {
	if l >= 0 {
		unix.Close(int(l))
	}
}

// tellsOfPeers gives the text of a record of /dev/kmsg ("6,339,5140900,-;text",
// Documentation/ABI/testing/dev-kmsg) that is about a peer-to-peer path.
func tellsOfPeers(record string) string {
	_, text, found := strings.Cut(record, ";")
	if !found {
		return ""
	}
	text, _, _ = strings.Cut(text, "\n")
	for _, piece := range umem.KernelLog {
		if strings.Contains(text, piece) {
			return text
		}
	}
	return ""
}
