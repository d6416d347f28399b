package kernel

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// Tracepoint finds a tracepoint of a module; none is fs.ErrNotExist. Of a module without
// types nobody knows but the kernel, when it is asked to attach: it is taken to be there.
func (k *Kernel) Tracepoint(name, module string) (Function, error) {
	if !slices.Contains(k.modules, module) {
		return Function{}, fmt.Errorf("%s: module %s is not loaded: %w", name, module, fs.ErrNotExist)
	}
	f := Function{Name: name, Module: module}
	if k.noTypes != nil {
		return f, nil
	}
	spec, err := k.Types.Module(module)
	if err != nil {
		return f, nil
	}
	var t *btf.Typedef
	if spec.TypeByName("btf_trace_"+name, &t) != nil {
		return Function{}, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return f, nil
}
