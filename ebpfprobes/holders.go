package ebpfprobes

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// holders gives the inodes of the dma-bufs that a process has open or mapped; nil if
// nobody asks. Looking through all processes is dear: it is worth it for dma-bufs that
// have survived an interval, each time if their process is gone, else once a minute.
func (s *LeakSession) holders(rows map[siteKey]*LeakRow) map[uint64]bool {
	ask := false
	for _, r := range rows {
		if r.Resource == DMABuffer && r.Survivors > 0 && (r.Gone || time.Since(s.scanned) > time.Minute) {
			ask = true
		}
	}
	if !ask {
		return nil
	}
	s.scanned = time.Now()
	return bufferHolders("/proc")
}

// bufferHolders looks through the processes of a /proc. Processes end meanwhile: what
// cannot be read is passed over.
func bufferHolders(proc string) map[uint64]bool {
	held := make(map[uint64]bool)
	entries, _ := os.ReadDir(proc)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		process := path.Join(proc, e.Name())
		opened(process, held)
		mapped(process, held)
	}
	return held
}

// bufferName is how the kernel names dma-bufs (drivers/dma-buf/dma-buf.c,
// dmabuffs_dname).
const bufferName = "/dmabuf:"

func opened(process string, held map[uint64]bool) {
	folder := path.Join(process, "fd")
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if to, err := os.Readlink(name); err != nil || !strings.HasPrefix(to, bufferName) {
			continue
		}
		if info, err := os.Stat(name); err == nil {
			held[inodeOf(info)] = true
		}
	}
}

func inodeOf(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// mapped takes the inode of lines "start-end perms offset device inode path".
func mapped(process string, held map[uint64]bool) {
	text, err := os.ReadFile(path.Join(process, "maps"))
	if err != nil || !strings.Contains(string(text), bufferName) {
		return
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.HasPrefix(f[5], bufferName) {
			continue
		}
		if inode, err := strconv.ParseUint(f[4], 10, 64); err == nil {
			held[inode] = true
		}
	}
}
