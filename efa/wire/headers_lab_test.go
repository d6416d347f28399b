//go:build lab

package wire

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Headers are upstream's C headers in one folder.
type headers struct {
	dir   string
	files []string
}

// openHeaders gives those of files that the folder has.
func openHeaders(t *testing.T, dir string, files ...string) headers {
	t.Helper()
	h := headers{dir: dir}
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(dir, f)); err == nil {
			h.files = append(h.files, f)
		} else {
			t.Logf("%s has no %s", dir, f)
		}
	}
	if len(h.files) == 0 {
		t.Fatalf("%s has none of %v", dir, files)
	}
	return h
}

// prelude is what the headers want of the kernel's own.
const prelude = `#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#define BIT(n) (1ull << (n))
#define GENMASK(h, l) ((~0ull >> (63 - (h))) & (~0ull << (l)))
#define __packed __attribute__((packed))
`

// evaluate has the C compiler say the values of expressions. Those that do not
// compile against these headers are missing in what it gives.
func (h headers) evaluate(t *testing.T, exprs []string) map[string]uint64 {
	t.Helper()
	work := t.TempDir()
	// efa_common_defs.h includes this for macros that are not used here.
	if err := os.Mkdir(filepath.Join(work, "linux"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "linux/bitfield.h"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// What uses a word that is nowhere in the headers need not be tried: the
	// compiler takes long over each name that it does not know.
	known := map[string]bool{"sizeof": true, "offsetof": true, "struct": true}
	for _, f := range h.files {
		b, err := os.ReadFile(filepath.Join(h.dir, f))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range word.FindAllString(string(b), -1) {
			known[w] = true
		}
	}
	var left []string
	for _, e := range exprs {
		if !slices.ContainsFunc(word.FindAllString(e, -1), func(w string) bool { return !known[w] && !isNumber(w) }) {
			left = append(left, e)
		}
	}
	for range 8 {
		var src bytes.Buffer
		src.WriteString(prelude)
		for _, f := range h.files {
			fmt.Fprintf(&src, "#include \"%s\"\n", f)
		}
		src.WriteString("static const unsigned long long values[] = {\n")
		// A line for each, so that an error tells by its line which one it was.
		first := bytes.Count(src.Bytes(), []byte("\n")) + 1
		for _, e := range left {
			fmt.Fprintf(&src, "(%s),\n", e)
		}
		src.WriteString(`};
int main(void)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		printf("%llu\n", values[i]);
	return 0;
}
`)
		program := filepath.Join(work, "probe")
		if err := os.WriteFile(program+".c", src.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		cc := exec.CommandContext(t.Context(), "gcc", "-w", "-fmax-errors=0", "-I"+work, "-I"+h.dir, "-o", program, program+".c")
		cc.Env = append(os.Environ(), "LC_ALL=C")
		out, err := cc.CombinedOutput()
		if err == nil {
			return run(t, program, left)
		}
		wrong := map[int]bool{}
		for _, m := range regexp.MustCompile(`(?m)^\S*probe\.c:(\d+):\d+: error:`).FindAllSubmatch(out, -1) {
			line, _ := strconv.Atoi(string(m[1]))
			wrong[line-first] = true
		}
		var good []string
		for i, e := range left {
			if !wrong[i] {
				good = append(good, e)
			}
		}
		if len(good) == len(left) {
			t.Fatalf("%s: %v\n%s", cc, err, out)
		}
		left = good
	}
	t.Fatalf("the program over %s does not compile even without what the compiler complained of", h.dir)
	return nil
}

func isNumber(w string) bool {
	_, err := strconv.ParseUint(w, 0, 64)
	return err == nil
}

func run(t *testing.T, program string, exprs []string) map[string]uint64 {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	if len(lines) != len(exprs) {
		t.Fatalf("%s printed %d numbers for %d expressions", program, len(lines), len(exprs))
	}
	values := map[string]uint64{}
	for i, e := range exprs {
		if values[e], err = strconv.ParseUint(lines[i], 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return values
}

var (
	comments  = regexp.MustCompile(`(?s)/\*.*?\*/`)
	defines   = regexp.MustCompile(`(?m)^#define (EFA_\w+)[ \t]+\S`)
	enums     = regexp.MustCompile(`(?m)^\s+(EFA_\w+)\s+=`)
	structs   = regexp.MustCompile(`(?ms)^struct (efa_\w+) \{(.*?)^\}`)
	members   = regexp.MustCompile(`(?m)(\w+)(\[[^\]]*\])?;$`)
	word      = regexp.MustCompile(`\w+`)
	unnamed   = regexp.MustCompile(`^(reserved\w*|ac?q_common_desc\w*)$`)
	functions = regexp.MustCompile(`(?m)^#define \w+\(.*(\\\n.*)*$`)
)

// names gives every constant of the headers, and every struct with its members.
func (h headers) names(t *testing.T) (constants []string, fields map[string][]string) {
	t.Helper()
	fields = map[string][]string{}
	for _, f := range h.files {
		b, err := os.ReadFile(filepath.Join(h.dir, f))
		if err != nil {
			t.Fatal(err)
		}
		text := functions.ReplaceAllString(comments.ReplaceAllString(string(b), ""), "")
		for _, re := range []*regexp.Regexp{defines, enums} {
			for _, m := range re.FindAllStringSubmatch(text, -1) {
				constants = append(constants, m[1])
			}
		}
		for _, m := range structs.FindAllStringSubmatch(text, -1) {
			fields[m[1]] = []string{}
			for _, f := range members.FindAllStringSubmatch(m[2], -1) {
				if !unnamed.MatchString(f[1]) {
					fields[m[1]] = append(fields[m[1]], f[1])
				}
			}
		}
	}
	return constants, fields
}
