package kernel

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
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

func (s *symbols) suffixed(suffix, module string) (found []Function, err error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	for base, lines := range s.byName {
		if !strings.HasSuffix(base, suffix) || strings.HasPrefix(base, "__pfx_") || strings.HasPrefix(base, "__") {
			continue
		}
		for _, line := range lines {
			if full, m, _ := strings.Cut(line, " "); m == module && full == base {
				found = append(found, Function{Name: full, Module: m})
			}
		}
	}
	return found, nil
}
