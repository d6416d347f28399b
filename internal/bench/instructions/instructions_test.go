//go:build linux && amd64

package instructions

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// work has a prologue, where the scheduler takes the processor from a goroutine
// that ran for 10 ms: every part that is stepped is one.
//
//go:noinline
func work(n int) (sum int) {
	for i := range n {
		sum += sum ^ i
	}
	return sum
}

var done int // so that the work is not for nothing

func TestMain(m *testing.M) {
	if os.Getenv("PEERDIRECT_COUNTED") != "" {
		runtime.LockOSThread()
		for _, n := range []int{1000, 2000, 3000} {
			runtime.Breakpoint()
			done = work(n)
			runtime.Breakpoint()
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestCountIsExact(t *testing.T) {
	program := filepath.Join(t.TempDir(), "loop")
	if out, err := exec.Command("gcc", "-O1", "-o", program, "testdata/loop.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	visited := uint64(0)
	parts, err := Count(exec.Command(program), func(uint64) bool { visited++; return true })
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint64{2000, 4000, 6000}; !slices.Equal(parts, want) {
		t.Errorf("%v, want %v", parts, want)
	}
	if visited != 12000 {
		t.Errorf("%d addresses of 12000 instructions", visited)
	}
}

// The scheduler's part of a count is between some hundred instructions and some
// thousand, so it is what remains that tells whether it was left out.
func TestCountWithoutScheduler(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PEERDIRECT_COUNTED=1", "GODEBUG=asyncpreemptoff=1")
	parts, err := Count(cmd, WithoutScheduler())
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 3 {
		t.Fatalf("%d parts: %v", len(parts), parts)
	}
	for i, round := range []float64{1000, 2000, 3000} {
		if per := (float64(parts[i]) - 200) / round; per < 3 || per > 10 {
			t.Errorf("%v rounds: %d instructions", round, parts[i])
		}
	}
	if step := float64(parts[2]-parts[1]) / float64(parts[1]-parts[0]); step < 0.95 || step > 1.05 {
		t.Errorf("1000, 2000 and 3000 rounds: %v", parts)
	}
}

func TestCountTellsHowACommandFailed(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"status":      {[]string{"sh", "-c", "exit 3"}, "status 3"},
		"signal":      {[]string{"sh", "-c", "kill -9 $$"}, "killed"},
		"no program":  {[]string{"/nonexistent/program"}, "no such file"},
		"no end":      {[]string{"sh", "-c", "exit 0"}, ""},
		"own signals": {[]string{"sh", "-c", "trap 'exit 0' USR1; kill -USR1 $$; exit 4"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			parts, err := Count(exec.Command(c.args[0], c.args[1:]...), nil)
			if c.want == "" && (err != nil || len(parts) != 0) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, %v; want %q", parts, err, c.want)
			}
		})
	}
}
