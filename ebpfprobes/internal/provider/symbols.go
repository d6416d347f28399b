package provider

import "debug/elf"

// imports tells whether the library takes a function from another, and in which version.
func (l *Library) imports(name string) (version string, ok bool) {
	for _, s := range l.symbols {
		if s.Name == name && s.Section == elf.SHN_UNDEF {
			return s.Version, true
		}
	}
	return "", false
}
