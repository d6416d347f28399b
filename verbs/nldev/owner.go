package nldev

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Owner is who made an object.
type Owner struct {
	// Kernel says that a kernel module did, whose name Comm is then.
	Kernel bool
	Comm   string
	// TID is the thread that made the object and PID the process it belongs to.
	// The kernel reports the thread (the rdma tool calls it pid): in a program of
	// many threads the two differ. Both are 0 if the thread has ended, or is of a
	// process-id namespace that the reader does not see; PID is TID if /proc does
	// not tell.
	TID uint32
	PID uint32
}

func (o Owner) String() string {
	switch {
	case o.Kernel:
		return "[" + o.Comm + "]"
	case o.PID == 0:
		return "unknown"
	case o.Comm == "":
		return strconv.Itoa(int(o.PID))
	}
	return fmt.Sprintf("%s (%d)", o.Comm, o.PID)
}

// owners completes owners from /proc, each thread once: a process with a
// million memory regions is common.
type owners struct {
	root  fs.FS
	known map[uint32]Owner
}

func (o *owners) complete(owner *Owner) {
	if owner.TID == 0 {
		return
	}
	found, ok := o.known[owner.TID]
	if !ok {
		found = lookUp(o.root, owner.TID)
		if o.known == nil {
			o.known = map[uint32]Owner{}
		}
		o.known[owner.TID] = found
	}
	*owner = found
}

func lookUp(root fs.FS, tid uint32) Owner {
	owner := Owner{TID: tid, PID: tid}
	// proc answers for the id of any thread, although it lists only processes.
	status, _ := fs.ReadFile(root, fmt.Sprintf("proc/%d/status", tid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "Tgid:"); ok {
			if pid, err := strconv.ParseUint(strings.TrimSpace(rest), 10, 32); err == nil {
				owner.PID = uint32(pid)
			}
			break
		}
	}
	comm, _ := fs.ReadFile(root, fmt.Sprintf("proc/%d/comm", owner.PID))
	owner.Comm = strings.TrimSuffix(string(comm), "\n")
	return owner
}
