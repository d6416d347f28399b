package doctor

import (
	"os"
	"strconv"
	"testing"

	"github.com/peerdirect/peerdirect/internal/sysroot"
)

// Of whatever machine the test runs on each check says something sound, and leaves
// no descriptor open.
func TestSystemChecksHere(t *testing.T) {
	here, err := sysroot.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	look := func() *Report {
		s := NewSystem(here, true)
		s.PID = os.Getpid()
		r, err := Look(t.Context(), s, "/", systemChecks, func(Check) {}, func(c Checked) error {
			for _, f := range c.Findings {
				sound(t, f)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	look() // what is opened once and kept is
	before := descriptors(t)
	r := look()
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
	if r.Kernel == "" {
		t.Error("the kernel's release is not told")
	}
	of := map[string][]Finding{}
	for _, f := range r.Findings() {
		of[f.Check] = append(of[f.Check], f)
	}
	for _, check := range []string{"memlock", "nofile", "capabilities"} {
		if n := len(of[check]); n != 2 || of[check][0].Subject != "this process" || of[check][1].Verdict == Unknown {
			t.Errorf("%s of this process and of --pid's, which is the same: %+v", check, of[check])
		}
	}
	if f := of["process-libraries"]; len(f) == 0 || f[0].Verdict == Unknown {
		t.Errorf("this process' own maps: %+v", f)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(os.Getpid()) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
