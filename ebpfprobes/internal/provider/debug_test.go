package provider

import (
	"bytes"
	"debug/elf"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// debugEnv names pairs of files, STRIPPED=DEBUG, separated by colons: libraries of a
// distribution and the same with their symbols. scripts/judge-providers makes them.
const debugEnv = "PEERDIRECT_PROVIDER_DEBUG"

// named are the functions that a provider has for each role, by the symbols of rdma-core.
var named = map[Role]*regexp.Regexp{
	PollCQ:    regexp.MustCompile(`^[a-z0-9]+_poll_cq(_v1)?$`),
	PostSend:  regexp.MustCompile(`^[a-z0-9]+_post_send$`),
	PostRecv:  regexp.MustCompile(`^[a-z0-9]+_post_recv$`),
	StartPoll: regexp.MustCompile(`^mlx5_start_poll(_|$)`),
	NextPoll:  regexp.MustCompile(`^mlx5_next_poll(_|$)`),
	EndPoll:   regexp.MustCompile(`^mlx5_end_poll(_|$)`),
}

// TestAgainstDebugSymbols holds what is found in stripped libraries to their symbols:
// every function of a role, and no other.
func TestAgainstDebugSymbols(t *testing.T) {
	pairs := os.Getenv(debugEnv)
	if pairs == "" {
		t.Skip("set " + debugEnv + " to STRIPPED=DEBUG[:...], or run scripts/judge-providers, which makes them")
	}
	for pair := range strings.SplitSeq(pairs, ":") {
		stripped, debug, ok := strings.Cut(pair, "=")
		if !ok {
			t.Fatalf("%s: %q is not STRIPPED=DEBUG", debugEnv, pair)
		}
		t.Run(filepath.Base(stripped), func(t *testing.T) { judge(t, stripped, debug) })
	}
}

func judge(t *testing.T, stripped, debug string) {
	f, err := os.Open(stripped)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := ReadLibrary(f)
	if err != nil {
		t.Fatal(err)
	}
	d, err := elf.Open(debug)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	sameCode(t, l.file, d)
	symbols, err := d.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	found, err := l.Operations()
	if err != nil {
		t.Fatal(err)
	}
	// Extended queues of other providers than mlx5 are set up by code.
	mlx5 := strings.Contains(filepath.Base(stripped), "mlx5")
	for _, role := range slices.Sorted(maps.Keys(named)) {
		name := named[role]
		var want []uint64
		for _, s := range symbols {
			if elf.ST_TYPE(s.Info) != elf.STT_FUNC || !name.MatchString(s.Name) {
				continue
			}
			want = append(want, s.Value)
			i := slices.Index(found[role], s.Value)
			if i < 0 {
				t.Errorf("%s %s %s resolved=none debug=%#x", filepath.Base(stripped), role, s.Name, s.Value)
				continue
			}
			t.Logf("%s %s %s resolved=%#x debug=%#x equal", filepath.Base(stripped), role, s.Name, found[role][i], s.Value)
		}
		for _, a := range found[role] {
			if !slices.Contains(want, a) {
				t.Errorf("%s: %#x has no such name", role, a)
			}
		}
		if len(want) == 0 && (mlx5 || name.MatchString("efa_"+string(role))) {
			t.Errorf("the debug file has no function for %s", role)
		}
	}
}

// sameCode makes sure that the symbols are of this very code.
func sameCode(t *testing.T, a, b *elf.File) {
	t.Helper()
	const id = ".note.gnu.build-id"
	x, y := a.Section(id), b.Section(id)
	if x == nil || y == nil {
		t.Fatalf("no section %s", id)
	}
	xd, xerr := x.Data()
	yd, yerr := y.Data()
	if xerr != nil || yerr != nil || !bytes.Equal(xd, yd) {
		t.Fatalf("the files' build identities differ (%x, %x): the debug file is of another build", xd, yd)
	}
}
