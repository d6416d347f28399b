package provider

import (
	"bytes"
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// compiled builds testdata/table.c into a library.
func compiled(t *testing.T, flags ...string) *Library {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64, for which testdata/table.c is")
	}
	file := filepath.Join(t.TempDir(), "table.so")
	// Hidden from other libraries, as providers' functions are: their pointers are relative.
	out, err := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", file, "testdata/table.c"}, flags...)...).CombinedOutput()
	if err != nil {
		t.Skipf("needs gcc: %v: %s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ReadLibrary(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// symbol gives the address of what the library exports.
func symbol(t *testing.T, l *Library, name string) uint64 {
	t.Helper()
	i := slices.IndexFunc(l.symbols, func(s elf.Symbol) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("%s is not in the library", name)
	}
	return l.symbols[i].Value
}

// Both forms of relocations give the same pointers.
func TestRelocations(t *testing.T) {
	for name, flags := range map[string][]string{"long": nil, "packed": {"-Wl,-z,pack-relative-relocs"}} {
		t.Run(name, func(t *testing.T) {
			l := compiled(t, flags...)
			want := make([]uint64, 8)
			for i, name := range map[int]string{0: "plain", 2: "marked", 3: "padded", 6: "both", 7: "plain"} {
				want[i] = symbol(t, l, name)
			}
			for _, at := range slices.Sorted(maps.Keys(l.words)) {
				if got, err := l.slots(at, len(want)); err == nil && slices.Equal(got, want) {
					return
				}
			}
			t.Errorf("no %#x in %#x", want, l.words)
		})
	}
}

// A breakpoint stands behind endbr64 and behind a nop of five bytes.
func TestSite(t *testing.T) {
	l := compiled(t)
	for name, behind := range map[string]uint64{"plain": 0, "marked": 4, "padded": 5, "both": 9} {
		a := symbol(t, l, name)
		start, err := l.Offset(a)
		if err != nil {
			t.Fatal(err)
		}
		if site, err := l.Site(a); err != nil || site != start+behind {
			t.Errorf("%s: at %#x, %v; it begins at %#x", name, site, err, start)
		}
		if back, err := l.Address(start); err != nil || back != a {
			t.Errorf("%s: %#x, %v", name, back, err)
		}
	}
	if _, err := l.Site(8); err == nil {
		t.Error("the file's header is no code")
	}
	if _, err := l.Offset(1 << 40); err == nil {
		t.Error("an address beyond the library")
	}
}
