package ebpfprobes

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
)

// capabilities are the ways to attach that this kernel has and this process may use.
type capabilities struct {
	fentry, kprobe error // why not; nil is yes
}

func findCapabilities() capabilities {
	var c capabilities
	if err := features.HaveProgramType(ebpf.Tracing); err != nil {
		c.fentry = err
	}
	// The kernel's own list of event sources: without CONFIG_KPROBES it is not there.
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe"); errors.Is(err, os.ErrNotExist) {
		c.kprobe = errors.New("this kernel is built without kprobes (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS)")
	} else if err := features.HaveProgramType(ebpf.Kprobe); err != nil {
		c.kprobe = err
	}
	return c
}

// way chooses how to attach to a function that exists.
func (c capabilities) way(f kernel.Function) (By, error) {
	switch {
	case f.Typed && c.fentry == nil:
		return ByFentry, nil
	case c.kprobe == nil:
		return ByKprobe, nil
	case !f.Typed:
		return "", c.kprobe
	}
	return "", fmt.Errorf("%w; %w", c.fentry, c.kprobe)
}
