package ebpfprobes

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// HolderBudget is how long a report of leaks may look through processes for those that
// hold dma-bufs. What one process takes is on top of it.
const HolderBudget = 100 * time.Millisecond

// askAgain is how long it is taken for granted that no process holds a dma-buf.
const askAgain = time.Minute

// search asks who holds the dma-bufs that have survived an interval. Their makers, and
// who held one before, are asked first; all processes only for what these do not hold.
func (s *LeakSession) search(rows map[siteKey]*LeakRow) {
	makers := make(map[uint64]int)
	for key, inodes := range s.inodes {
		for _, inode := range inodes {
			makers[inode] = 0
			if r := rows[key]; r != nil && !r.Gone {
				makers[inode] = r.PID
			}
		}
	}
	s.holders.look("/proc", makers, HolderBudget)
}

// holderSearch looks for the processes that hold dma-bufs, by inode. The zero value has
// not looked.
type holderSearch struct {
	holder map[uint64]holding   // who held it when it was last looked
	unheld map[uint64]time.Time // when a pass through all processes had not found one
	unsure map[uint64]bool      // that pass met processes that it might not look at
	blind  bool                 // so has the one under way

	// The pass that is under way: processes to look at yet, and for what.
	left   []int
	sought []uint64

	visitor
}

type holding struct {
	pid int
	at  time.Time
}

// holds tells whether a process holds a dma-buf, as far as that is known.
func (h *holderSearch) holds(inode uint64) (held, known bool) {
	if _, held = h.holder[inode]; held {
		return true, true
	}
	_, known = h.unheld[inode]
	return false, known && !h.unsure[inode]
}

// look brings up to date what is known of dma-bufs, whose makers are given where they are
// alive. It takes as long as the budget, and one process at least.
func (h *holderSearch) look(proc string, makers map[uint64]int, budget time.Duration) {
	now := time.Now()
	until := now.Add(budget)
	if h.unheld == nil {
		h.unheld, h.unsure = make(map[uint64]time.Time), make(map[uint64]bool)
	}
	if len(h.left) == 0 {
		h.blind = false
	}
	for inode := range h.unheld {
		if _, ok := makers[inode]; !ok {
			delete(h.unheld, inode)
			delete(h.unsure, inode)
		}
	}
	asked := make(map[int]bool)
	before := h.holder
	h.holder = make(map[uint64]holding)
	visit := func(pid int) {
		if pid == 0 || asked[pid] {
			return
		}
		asked[pid] = true
		if !h.visit(path.Join(proc, strconv.Itoa(pid)), func(inode uint64) {
			if _, wanted := makers[inode]; wanted {
				h.holder[inode] = holding{pid, now}
				delete(h.unheld, inode)
			}
		}) {
			h.blind = true
		}
	}
	for inode, maker := range makers {
		last, was := before[inode]
		if was && (last.pid == maker && now.Sub(last.at) < askAgain || time.Now().After(until)) {
			h.holder[inode] = last
			continue
		}
		for _, pid := range []int{maker, last.pid} {
			if _, found := h.holder[inode]; !found {
				visit(pid)
			}
		}
	}
	h.pass(proc, makers, until, visit)
}

// pass goes on with the pass through all processes, or begins one where there is need.
func (h *holderSearch) pass(proc string, makers map[uint64]int, until time.Time, visit func(int)) {
	found := func(inode uint64) bool {
		_, wanted := makers[inode]
		_, held := h.holder[inode]
		return held || !wanted
	}
	if len(h.left) == 0 {
		h.sought = h.sought[:0]
		for inode := range makers {
			if at, known := h.unheld[inode]; !found(inode) && (!known || time.Since(at) > askAgain) {
				h.sought = append(h.sought, inode)
			}
		}
		if len(h.sought) == 0 {
			return
		}
		h.left = pidsOf(proc)
	}
	for len(h.left) > 0 {
		if h.sought = slices.DeleteFunc(h.sought, found); len(h.sought) == 0 {
			h.left = nil
			return
		}
		last := len(h.left) - 1
		visit(h.left[last])
		h.left = h.left[:last]
		if time.Now().After(until) && len(h.left) > 0 {
			return
		}
	}
	for _, inode := range h.sought {
		if !found(inode) {
			h.unheld[inode], h.unsure[inode] = time.Now(), h.blind
		}
	}
}

// pidsOf gives the processes of a /proc.
func pidsOf(proc string) (pids []int) {
	d, err := os.Open(proc)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// visitor looks at processes, with memory that it keeps from one to the next. Processes
// end meanwhile: what cannot be read is passed over.
type visitor struct {
	link  [64]byte
	lines *bufio.Reader
}

// bufferName is how the kernel names dma-bufs (drivers/dma-buf/dma-buf.c,
// dmabuffs_dname).
var bufferName = []byte("/dmabuf:")

// visit gives the inodes of the dma-bufs that a process has open or mapped; false if it
// may not be looked at (without CAP_SYS_PTRACE, those of other users).
func (v *visitor) visit(process string, give func(inode uint64)) bool {
	opened, mapped := v.opened(path.Join(process, "fd"), give), v.mapped(path.Join(process, "maps"), give)
	return !errors.Is(opened, fs.ErrPermission) && !errors.Is(mapped, fs.ErrPermission)
}

func (v *visitor) opened(folder string, give func(uint64)) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		n, err := unix.Readlinkat(int(d.Fd()), name, v.link[:])
		if err != nil || !bytes.HasPrefix(v.link[:n], bufferName) {
			continue
		}
		var s unix.Stat_t
		if unix.Fstatat(int(d.Fd()), name, &s, 0) == nil {
			give(s.Ino)
		}
	}
	return nil
}

// mapped takes the inode of lines "start-end perms offset device inode path".
func (v *visitor) mapped(maps string, give func(uint64)) error {
	f, err := os.Open(maps)
	if err != nil {
		return err
	}
	defer f.Close()
	if v.lines == nil {
		v.lines = bufio.NewReaderSize(f, 16<<10)
	} else {
		v.lines.Reset(f)
	}
	for {
		line, err := v.lines.ReadSlice('\n')
		if bytes.Contains(line, bufferName) {
			if f := bytes.Fields(line); len(f) >= 6 && bytes.HasPrefix(f[5], bufferName) {
				if inode, err := strconv.ParseUint(string(f[4]), 10, 64); err == nil {
					give(inode)
				}
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return nil
		}
	}
}
