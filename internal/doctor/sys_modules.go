package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/internal/kconfig"
	"github.com/peerdirect/peerdirect/pci"
)

// modules is what the system tells of kernel modules: those that run, and those
// that the running kernel could load.
type modules struct {
	s       *System
	release string

	loaded    map[string]string // by name: the rest of its line, "Live", "(OE)"
	loadedErr error             // /proc/modules could not be read
	installed map[string]string // path below the tree, by name
	builtin   map[string]string
	treeErr   error             // there is no tree of this release
	others    []string          // releases that have one
	blocked   map[string]string // by name: the line that forbids it
	refused   map[string]bool   // those of it that modprobe does not load by name either
	aliases   []alias           // of PCI devices
	config    []byte            // the kernel's; nil is unknown
	configAt  string
}

// optionOf are options without which there is no such module.
var optionOf = map[string]string{"ib_core": "CONFIG_INFINIBAND", "ib_uverbs": "CONFIG_INFINIBAND_USER_ACCESS", "rdma_ucm": "CONFIG_INFINIBAND_ADDR_TRANS"}

type alias struct{ pattern, module string }

// readModules reads what there is.
func (s *System) readModules() *modules {
	m := &modules{s: s, release: s.Kernel(), blocked: map[string]string{}, refused: map[string]bool{}}
	text, err := s.text("proc/modules")
	m.loaded, m.loadedErr = parseModules(text), err
	tree := "lib/modules"
	entries, err := fs.ReadDir(s.Root, tree)
	for _, e := range entries {
		if e.Name() != m.release {
			m.others = append(m.others, e.Name())
		}
	}
	if at := path.Join(tree, m.release); m.release != "" && fs.ValidPath(at) && path.Dir(at) == tree {
		text, err = s.text(path.Join(at, "modules.dep"))
		m.installed = parseTree(text)
		text, _ = s.text(path.Join(at, "modules.builtin"))
		m.builtin = parseTree(text)
		text, _ = s.text(path.Join(at, "modules.alias"))
		m.aliases = parseAliases(text)
	}
	m.treeErr = err
	m.config, m.configAt, _ = kconfig.Read(s.Root, m.release)
	hidden := map[string]bool{}
	for _, folder := range []string{"etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d"} {
		files, _ := fs.ReadDir(s.Root, folder)
		for _, file := range files {
			if name := file.Name(); strings.HasSuffix(name, ".conf") && !hidden[name] {
				hidden[name] = true // those of the name in the folders that follow
				m.block(s.settings("", path.Join(folder, name)))
			}
		}
	}
	if text, err := s.text("proc/cmdline"); err == nil {
		for _, word := range strings.Fields(text) {
			name, value, _ := strings.Cut(word, "=")
			if name == "module_blacklist" || name == "modprobe.blacklist" {
				for _, module := range strings.Split(value, ",") {
					m.forbid(plainName(module), "/proc/cmdline: "+word, name == "module_blacklist")
				}
			}
		}
	}
	return m
}

// plainName is how the kernel spells a module's name: files may have "-" for "_".
func plainName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// parseModules reads /proc/modules: name, size, users, their names, state, address
// and, of some, what it taints the kernel with.
func parseModules(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 5 {
			state := f[4]
			if len(f) > 6 {
				state += " " + f[6]
			}
			all[f[0]] = state
		}
	}
	return all
}

// parseTree reads modules.dep ("path: paths of what it needs") and modules.builtin
// ("path"), by name of module.
func parseTree(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		file, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		name, _, ok := strings.Cut(path.Base(file), ".ko")
		if ok && name != "" {
			all[plainName(name)] = file
		}
	}
	return all
}

// parseAliases leaves of modules.alias those of PCI functions: "alias pattern module".
func parseAliases(text string) (all []alias) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "alias pci:")
		if pattern, module, both := strings.Cut(rest, " "); ok && both {
			all = append(all, alias{"pci:" + pattern, plainName(strings.TrimSpace(module))})
		}
	}
	return all
}

// block takes the lines of a file of modprobe.d.
func (m *modules) block(lines []string) {
	for _, line := range lines {
		_, text, _ := strings.Cut(line, ": ")
		if name, refused, ok := parseBlocked(text); ok {
			m.forbid(name, line, refused)
		}
	}
}

// forbid notes the line that keeps a module away; the harder one stays.
func (m *modules) forbid(name, line string, refused bool) {
	if !m.refused[name] {
		m.blocked[name], m.refused[name] = line, refused
	}
}

// parseBlocked reads a line of modprobe.d that keeps a module from being loaded: by
// its aliases, "blacklist NAME", or by its name too (refused), "install NAME /bin/false".
func parseBlocked(line string) (name string, refused, ok bool) {
	f := strings.Fields(line)
	switch {
	case len(f) == 2 && f[0] == "blacklist":
		return plainName(f[1]), false, true
	case len(f) >= 3 && f[0] == "install" && slices.Contains([]string{"true", "false", ":"}, path.Base(f[2])):
		return plainName(f[1]), true, true
	}
	return "", false, false
}

// forFunction are the modules that say they drive a PCI function.
func (m *modules) forFunction(d *pci.Device) (names []string) {
	// As drivers/pci/pci-driver.c, pci_uevent, spells it.
	is := fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X", d.Vendor, d.Product, d.SubVendor, d.SubProduct,
		d.Class>>16&0xff, d.Class>>8&0xff, d.Class&0xff)
	for _, a := range m.aliases {
		if ok, _ := path.Match(a.pattern, is); ok && !slices.Contains(names, a.module) {
			names = append(names, a.module)
		}
	}
	return names
}

// state is where a module is.
type state uint8

const (
	stateUnknown state = iota
	stateNever         // the kernel is built without it
	stateAbsent        // neither in the kernel nor in its tree
	stateInstalled
	stateRuns // loaded, or built in
)

// look tells where a module is, and by what evidence.
func (m *modules) look(name string) (st state, evidence []string) {
	if line, ok := m.loaded[name]; ok {
		e := "/proc/modules: " + name + " " + line
		if version, err := m.s.text("sys/module/" + name + "/version"); err == nil {
			e += "; /sys/module/" + name + "/version: " + version
		}
		return stateRuns, []string{e}
	}
	if there, _ := m.s.exists("sys/module/" + name); there {
		return stateRuns, []string{"/sys/module/" + name}
	}
	if file, ok := m.builtin[name]; ok {
		return stateRuns, []string{"/lib/modules/" + m.release + "/modules.builtin: " + file}
	}
	if there, known := m.s.exists("sys/module"); m.loadedErr != nil && !(there && known) {
		return stateUnknown, []string{why("proc/modules", m.loadedErr)}
	}
	if option := optionOf[name]; option != "" && m.config != nil {
		if value, named := kconfig.Option(m.config, option); value == "n" || !named {
			return stateNever, []string{"/" + m.configAt + ": " + option + " is not set"}
		}
		// rdma_ucm is built as ib_uverbs is: its own option is yes or no.
		const verbs = "CONFIG_INFINIBAND_USER_ACCESS"
		if value, _ := kconfig.Option(m.config, verbs); value == "y" {
			return stateRuns, []string{"/" + m.configAt + ": " + verbs + "=y"}
		}
	}
	evidence = []string{"neither /proc/modules nor /sys/module has " + name}
	if line, ok := m.blocked[name]; ok {
		evidence = append(evidence, line)
	}
	if file, ok := m.installed[name]; ok {
		return stateInstalled, append(evidence, "/lib/modules/"+m.release+"/"+file)
	}
	if m.treeErr != nil {
		return stateUnknown, append(evidence, why("lib/modules/"+m.release+"/modules.dep", m.treeErr))
	}
	return stateAbsent, append(evidence, "/lib/modules/"+m.release+"/modules.dep does not name it")
}
