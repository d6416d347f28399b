//go:build linux && amd64

package instructions

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// work is 3 instructions and those of its loop, n times.
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
		for _, n := range []int{1000, 2000, 3000} {
			runtime.LockOSThread()
			runtime.Breakpoint()
			done = work(n)
			runtime.Breakpoint()
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestCountGrowsByTheLoop(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PEERDIRECT_COUNTED=1", "GODEBUG=asyncpreemptoff=1")
	visited := uint64(0)
	parts, err := Count(cmd, func(uint64) bool { visited++; return true })
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 3 {
		t.Fatalf("%d parts: %v", len(parts), parts)
	}
	if total := parts[0] + parts[1] + parts[2]; visited != total {
		t.Errorf("%d addresses of %d instructions", visited, total)
	}
	step := parts[1] - parts[0]
	if parts[2]-parts[1] != step || step < 3000 || step > 10000 || parts[0] < step || parts[0] > step+60 {
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
