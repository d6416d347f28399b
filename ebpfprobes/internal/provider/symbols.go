package provider

import (
	"debug/elf"
	"fmt"
)

// Symbol finds a function by name, in the version that programs built now are given:
// libibverbs has 33 names twice, and the old ones are called by nobody.
func (l *Library) Symbol(name string) (uint64, error) {
	var old []string
	for _, s := range l.symbols {
		if s.Name != name || s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		// Without versions every symbol is the one.
		if s.HasVersion && s.VersionIndex.IsHidden() {
			old = append(old, s.Version)
			continue
		}
		return s.Value, nil
	}
	if len(old) > 0 {
		return 0, fmt.Errorf("%s: %w: only in old versions (%v)", name, ErrUnknown, old)
	}
	return 0, fmt.Errorf("%s: %w: the library does not export it", name, ErrUnknown)
}

// imports tells whether the library takes a function from another, and in which version.
func (l *Library) imports(name string) (version string, ok bool) {
	for _, s := range l.symbols {
		if s.Name == name && s.Section == elf.SHN_UNDEF {
			return s.Version, true
		}
	}
	return "", false
}
