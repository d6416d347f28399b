package kernel

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// symbols are the functions of /proc/kallsyms, read once and only if they are asked
// for: it has hundreds of thousands of lines.
type symbols struct {
	once   sync.Once
	byName map[string][]string // name without suffix: lines' "name module"
	err    error
}

func (s *symbols) load() error {
	s.once.Do(func() {
		f, err := os.Open("/proc/kallsyms")
		if err != nil {
			s.err = fmt.Errorf("the kernel's symbols: %w", err)
			return
		}
		defer f.Close()
		s.byName, s.err = parseSymbols(f)
	})
	return s.err
}

// parseSymbols takes lines of "address type name [module]", text symbols only
// (kernel/kallsyms.c).
func parseSymbols(r io.Reader) (map[string][]string, error) {
	found := make(map[string][]string)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := bytes.Fields(lines.Bytes())
		if len(f) < 3 || len(f[1]) != 1 || f[1][0]|0x20 != 't' {
			continue
		}
		name, module := string(f[2]), ""
		if len(f) > 3 {
			module = strings.Trim(string(f[3]), "[]")
		}
		base := bare(name)
		found[base] = append(found[base], name+" "+module)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("the kernel's symbols: %w", err)
	}
	return found, nil
}

// bare is a function's name without what compilers append, which follows a dot.
func bare(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return name
}

func (s *symbols) find(name string, variants bool) (found []Function, err error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	for _, line := range s.byName[name] {
		full, module, _ := strings.Cut(line, " ")
		// A part that was split off as seldom run is no entry of the function.
		if full != name && (!variants || strings.Contains(full, ".cold") || strings.Contains(full, ".part")) {
			continue
		}
		found = append(found, Function{Name: full, Module: module})
	}
	return found, nil
}

// suffixed finds what drivers hang into the kernel's tables, by names alone.
func (s *symbols) suffixed(suffix, module string) (found []Function, err error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	for base := range s.byName {
		if s.has(base, module) && s.isOperation(base, suffix, module) {
			found = append(found, Function{Name: base, Module: module})
		}
	}
	slices.SortFunc(found, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// isOperation tells a driver's operation from functions of its layers below, which may
// end alike (efa_com_dereg_mr, bnxt_qplib_reg_mr): every driver that serves programs has
// alloc_ucontext among its operations, and begins the names of all of them alike. Where
// an operation reg_user_mr is there, reg_mr is another thing (ocrdma). So it is with all
// drivers of Linux 6.1 to 7.3.
func (s *symbols) isOperation(name, suffix, module string) bool {
	driver, ok := strings.CutSuffix(name, suffix)
	if !ok || !s.has(driver+"_alloc_ucontext", module) {
		return false
	}
	return suffix != "_reg_mr" || !s.has(driver+"_reg_user_mr", module)
}

func (s *symbols) has(name, module string) bool {
	return slices.Contains(s.byName[name], name+" "+module)
}
