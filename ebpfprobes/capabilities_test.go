package ebpfprobes

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
)

// A way is chosen by what is allowed, and what is told is each reason once.
func TestWay(t *testing.T) {
	no, off, refused := errors.New("no"), errors.New("off"), unix.EPERM
	module, base := kernel.Function{Module: "ib_core", Typed: true}, kernel.Function{Typed: true}
	for what, c := range map[string]struct {
		can  capabilities
		f    kernel.Function
		by   By
		want string
	}{
		"all":                             {capabilities{}, module, ByFentry, ""},
		"without types":                   {capabilities{}, kernel.Function{}, ByKprobe, ""},
		"no fentry":                       {capabilities{fentry: no}, base, ByKprobe, ""},
		"modules' types are closed":       {capabilities{modules: refused}, module, ByKprobe, ""},
		"but not the kernel's":            {capabilities{modules: refused}, base, ByFentry, ""},
		"nothing left":                    {capabilities{modules: refused, kprobe: off}, module, "", "operation not permitted; off"},
		"nothing at all, for one reason":  {capabilities{fentry: no, kprobe: no}, module, "", "no"},
		"without types, and kprobes away": {capabilities{kprobe: off}, kernel.Function{}, "", "off"},
	} {
		by, err := c.can.way(c.f)
		if by != c.by || (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: %q, %v", what, by, err)
		}
	}
}

// The sysctl is named where changing it helps: not at 2, by which CAP_PERFMON is enough.
func TestKprobesRefused(t *testing.T) {
	all := []string{"sysctl kernel.perf_event_paranoid=2", "seccomp filter", "security module"}
	for _, c := range []struct {
		level    string
		filtered bool
		err      error
		want     string
	}{
		{"3", false, unix.EACCES, all[0]}, {"3", true, unix.EACCES, all[0]}, {"", true, unix.EPERM, all[0]},
		{"2", true, unix.EPERM, all[1]}, {"-1", true, unix.EPERM, all[1]}, {"2", false, unix.EACCES, all[2]},
	} {
		err := kprobesRefused(c.level, c.filtered, c.err)
		if !errors.Is(err, c.err) {
			t.Errorf("%q, %t: %v is not %v", c.level, c.filtered, err, c.err)
		}
		for _, text := range all {
			if strings.Contains(err.Error(), text) != (text == c.want) {
				t.Errorf("%q, %t, %v: %v; want %q alone", c.level, c.filtered, c.err, err, c.want)
			}
		}
	}
}

// What hinders every role is told once, and absent drivers' functions only if there is
// nothing else to tell.
func TestLackingTellsOnce(t *testing.T) {
	err := Lacking([]Probe{
		{Role: "birth", Function: "a", Usable: No, Why: "refused", Err: fs.ErrPermission, Needed: true},
		{Role: "birth", Function: "b", Usable: No, Why: "no such driver", Needed: true},
		{Role: "end", Function: "c", Usable: No, Why: "refused", Err: fs.ErrPermission, Needed: true},
		{Role: "change", Function: "d", Usable: No, Why: "no such function", Needed: true},
		{Role: "driver", Function: "*_e", Usable: No, Why: noDriver, Needed: true},
		{Role: "driver", Function: "f", Usable: No, Why: "no such function", Needed: true},
	})
	const want = "attach for birth, end: refused\nattach for change, driver: no such function"
	if err == nil || err.Error() != want || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v; want %s", err, want)
	}
}
