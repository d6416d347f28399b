package ebpfprobes

import (
	"errors"
	"fmt"
	"os"
)

// hostPIDs is the machine's own namespace of processes: its number never changes
// (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const hostPIDs = "pid:[4026531836]"

// checkNamespace refuses a namespace whose numbers of processes are not those that the
// kernel's programs see. Where it cannot be read, nothing is refused.
func checkNamespace() error {
	now, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil
	}
	return namespaceError(now)
}

func namespaceError(now string) error {
	if now == hostPIDs {
		return nil
	}
	return &Error{Op: "trace", Object: "processes", Err: fmt.Errorf("this process is in a PID namespace of its own, and the kernel's programs see the "+
		"machine's process numbers: run it outside, or with the host's PID namespace (hostPID: true, --pid=host): %w", errors.ErrUnsupported)}
}
