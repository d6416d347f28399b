// Package kernel tells which functions a running kernel has, where they are and how
// a program can be attached to them: by the types (BTF) of the kernel and of each
// module, and by its symbols.
package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Kernel is the running kernel as it stood when Open was called: modules that come
// later are not in it.
type Kernel struct {
	// Types is shared by what is loaded into the kernel: reading them is dear.
	Types *btf.Cache

	modules []string // that RDMA is made of, as far as they are loaded
	absent  []string // how the names begin of functions of RDMA that is not there
	symbols symbols
	noTypes error // why the kernel's types cannot be had
}

// Function is a function of the kernel that was found.
type Function struct {
	Name   string // with its suffix, if the compiler made one: "f.constprop.0"
	Module string // "" is the kernel itself
	Typed  bool   // its types are known, so that fentry can be attached
}

// Open reads what there is; what is missing is found by the questions.
func Open() *Kernel {
	k := &Kernel{Types: btf.NewCache()}
	if _, err := k.Types.Kernel(); err != nil {
		k.noTypes = err
	}
	k.modules = rdmaModules(os.DirFS("/"))
	k.absent = absentRDMA(os.DirFS("/"), k.modules)
	return k
}

// RDMAModules are the loaded modules that RDMA is made of, as of now.
func RDMAModules() []string { return rdmaModules(os.DirFS("/")) }

// NoTypes tells why the kernel's types cannot be had; nil if they can.
func (k *Kernel) NoTypes() error { return k.noTypes }

// Modules are the loaded modules that RDMA is made of.
func (k *Kernel) Modules() []string { return slices.Clone(k.modules) }

// ModuleTypes gives the types of those modules that have them: the kernel's own hold
// nothing of RDMA where it is built as modules.
func (k *Kernel) ModuleTypes() (specs []*btf.Spec) {
	for _, m := range k.modules {
		if s, err := k.Types.Module(m); err == nil {
			specs = append(specs, s)
		}
	}
	return specs
}

// Find finds the functions of a name: typed if the types have it, else by its symbol.
// With variants it also takes what the compiler made of it, whose arguments may
// differ. A module that is named is where to look; "" is everywhere. None is
// fs.ErrNotExist; another error is that nobody knows.
func (k *Kernel) Find(name, module string, variants bool) ([]Function, error) {
	if f, ok := k.typed(name); ok {
		return []Function{f}, nil
	}
	if module != "" && !slices.Contains(k.modules, module) {
		return nil, fmt.Errorf("%s: module %s is not loaded: %w", name, module, fs.ErrNotExist)
	}
	found, err := k.symbols.find(name, variants)
	// Who may not read the symbols, as in a unit with ProtectKernelTunables=, is still to
	// hear that the module is missing.
	if err != nil && !slices.ContainsFunc(k.absent, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return found, nil
}

func (k *Kernel) typed(name string) (Function, bool) {
	if k.noTypes != nil {
		return Function{}, false
	}
	base, err := k.Types.Kernel()
	if err != nil {
		return Function{}, false
	}
	if f, ok := function(base, name, ""); ok {
		return f, true
	}
	for _, m := range k.modules {
		spec, err := k.Types.Module(m)
		if err != nil {
			continue // built without types: the symbols tell
		}
		if f, ok := function(spec, name, m); ok {
			return f, true
		}
	}
	return Function{}, false
}

func function(spec *btf.Spec, name, module string) (Function, bool) {
	var f *btf.Func
	if err := spec.TypeByName(name, &f); err != nil {
		return Function{}, false
	}
	return Function{Name: name, Module: module, Typed: true}, true
}

// Suffixed finds the functions of RDMA's modules whose names end so and whose first
// argument is a pointer to that struct, of that many arguments at least: what drivers
// hang into the kernel's tables they name alike. Of a module without types the names
// alone must do, of this function and of others.
func (k *Kernel) Suffixed(suffix, firstArgument string, arguments int) (found []Function, err error) {
	var errs []error
	for _, m := range k.modules {
		if m == "ib_core" || m == "ib_uverbs" {
			continue // not drivers; their types are many
		}
		var spec *btf.Spec
		if k.noTypes == nil {
			spec, _ = k.Types.Module(m)
		}
		if spec == nil {
			named, err := k.symbols.suffixed(suffix, m)
			found, errs = append(found, named...), append(errs, err)
			continue
		}
		for t, err := range spec.All() {
			if err != nil {
				errs = append(errs, fmt.Errorf("types of module %s: %w", m, err))
				break
			}
			f, ok := t.(*btf.Func)
			if !ok || !strings.HasSuffix(f.Name, suffix) {
				continue
			}
			proto, ok := f.Type.(*btf.FuncProto)
			if ok && len(proto.Params) >= arguments && pointsTo(proto.Params[0].Type, firstArgument) {
				found = append(found, Function{Name: f.Name, Module: m, Typed: true})
			}
		}
	}
	return found, errors.Join(errs...)
}

func pointsTo(t btf.Type, name string) bool {
	p, ok := btf.As[*btf.Pointer](t)
	if !ok {
		return false
	}
	s, ok := btf.As[*btf.Struct](p.Target)
	return ok && s.Name == name
}

// rdmaModules walks /proc/modules, whose fourth column names the modules that use one:
// from ib_core to all that use it, and to what these use besides (a NIC's driver is
// often two modules).
func rdmaModules(root fs.FS) []string {
	text, err := fs.ReadFile(root, "proc/modules")
	if err != nil {
		return nil // none, or a kernel without modules: the kernel's own types have all
	}
	users := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		users[f[0]] = strings.FieldsFunc(f[3], func(r rune) bool { return r == ',' || r == '-' })
	}
	if _, ok := users["ib_core"]; !ok {
		return nil
	}
	in := map[string]bool{"ib_core": true}
	for todo := []string{"ib_core"}; len(todo) > 0; todo = todo[1:] {
		for _, u := range users[todo[0]] {
			if !in[u] {
				in[u] = true
				todo = append(todo, u)
			}
		}
	}
	var uses []string
	for m, by := range users {
		if !in[m] && slices.ContainsFunc(by, func(u string) bool { return in[u] }) {
			uses = append(uses, m)
		}
	}
	for m := range in {
		uses = append(uses, m)
	}
	slices.Sort(uses)
	return uses
}
