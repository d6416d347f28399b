package dmabuf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fact is a number of the kernel's headers that this package has written down.
type fact struct {
	c     string // expression
	ours  uint64
	guard string // macro that headers with it define
}

// layout gives the facts of a struct: its size, and the offset and size of each
// field. fields are the C names, in the order of ours; "" is left out.
func layout[T any](c, guard string, fields ...string) []fact {
	t := reflect.TypeFor[T]()
	facts := []fact{{fmt.Sprintf("sizeof(%s)", c), uint64(t.Size()), guard}}
	for i, name := range fields {
		if name == "" {
			continue
		}
		f := t.Field(i)
		facts = append(facts,
			fact{fmt.Sprintf("offsetof(%s, %s)", c, name), uint64(f.Offset), guard},
			fact{fmt.Sprintf("sizeof(((%s *)0)->%s)", c, name), uint64(f.Type.Size()), guard})
	}
	return facts
}

// headerFolders are the kernel headers to compare with: this machine's (""),
// those of the lab's roots, and those listed in PEERDIRECT_KERNEL_HEADERS.
func headerFolders() []string {
	dirs := append([]string{""}, filepath.SplitList(os.Getenv("PEERDIRECT_KERNEL_HEADERS"))...)
	if cache, err := os.UserCacheDir(); err == nil {
		roots, _ := filepath.Glob(filepath.Join(cache, "peerdirect/lab/root-*/tree/usr/include"))
		dirs = append(dirs, roots...)
	}
	return dirs
}

// compareABI compares facts with every set of headers that is here. A header
// that includes another, which may be missing, is given after it in one string:
// "drm/drm.h linux/kfd_ioctl.h". What old
// headers lack is told, and is an error where no set has it though a lab's is
// among them.
func compareABI(t *testing.T, headers []string, facts []fact) {
	t.Helper()
	if os.Getenv("PEERDIRECT_NODE") != "" {
		t.Skip("a lab guest's headers are compared on its host")
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc")
	}
	var c strings.Builder
	c.WriteString("#include <stddef.h>\n#include <stdio.h>\n")
	for _, h := range headers {
		names := strings.Fields(h)
		fmt.Fprintf(&c, "#if __has_include(<%s>)\n", strings.Join(names, ">) && __has_include(<"))
		for _, name := range names {
			fmt.Fprintf(&c, "#include <%s>\n", name)
		}
		c.WriteString("#endif\n")
	}
	c.WriteString("int main(void) {\n")
	for i, f := range facts {
		fmt.Fprintf(&c, "#ifdef %s\nprintf(\"%d %%llu\\n\", (unsigned long long)(%s));\n#endif\n", f.guard, i, f.c)
	}
	c.WriteString("}\n")
	seen := make([]bool, len(facts))
	dirs := headerFolders()
	for _, dir := range dirs {
		name := dir
		if dir == "" {
			name = "this machine's headers"
		}
		told := askHeaders(t, gcc, dir, c.String())
		var missing []string
		for i, f := range facts {
			theirs, ok := told[i]
			switch {
			case ok && theirs == f.ours:
			case ok:
				t.Errorf("%s: %s is %#x, ours is %#x", name, f.c, theirs, f.ours)
			case !slices.Contains(missing, f.guard):
				missing = append(missing, f.guard)
			}
			seen[i] = seen[i] || ok
		}
		if missing != nil {
			t.Logf("%s: without %s", name, strings.Join(missing, ", "))
		}
	}
	for i, f := range facts {
		if !seen[i] && len(dirs) > 1 {
			t.Errorf("no header here has %s: nothing was compared with %s", f.guard, f.c)
		}
	}
}

// askHeaders compiles and runs a program with the kernel headers of a folder,
// and gives the numbers that it prints.
func askHeaders(t *testing.T, gcc, dir, program string) map[int]uint64 {
	t.Helper()
	tmp := t.TempDir()
	exe := filepath.Join(tmp, "abi")
	args := []string{"-D_GNU_SOURCE", "-o", exe, "-xc", "-"}
	if dir != "" {
		// Only the kernel's folders: a root's other headers are its C library's.
		for link, target := range map[string]string{"linux": "linux", "drm": "drm", "misc": "misc",
			"asm-generic": "asm-generic", "asm": "x86_64-linux-gnu/asm"} {
			if err := os.Symlink(filepath.Join(dir, target), filepath.Join(tmp, link)); err != nil {
				t.Fatal(err)
			}
		}
		args = append([]string{"-isystem", tmp}, args...)
	}
	cc := exec.Command(gcc, args...)
	cc.Stdin = strings.NewReader(program)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("with %q: %v\n%s", dir, err, out)
	}
	out, err := exec.Command(exe).Output()
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[int]uint64)
	for line := range strings.Lines(string(out)) {
		var i int
		var v uint64
		if _, err := fmt.Sscan(line, &i, &v); err != nil {
			t.Fatal(err)
		}
		told[i] = v
	}
	return told
}
