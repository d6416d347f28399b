//go:build lab

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/verbs"
)

// diagnosis is what 'peerdirect doctor --json' prints.
type diagnosis struct {
	Worst    string
	Exit     int
	Findings []diagnosed
}

type diagnosed struct {
	Check, Verdict, Summary string
	Subject, Cause, Remedy  *string
	Evidence, Commands      []string
}

func (d diagnosed) String() string {
	return fmt.Sprintf("%s %s %s {%s}: %s", d.Verdict, d.Check, word(d.Subject), word(d.Cause), d.Summary)
}

// doctorSays runs the doctor, perhaps by another program before it, and holds its
// exit code to what the document says.
func doctorSays(t *testing.T, before []string, args ...string) diagnosis {
	t.Helper()
	line := append(append(before, "peerdirect", "doctor", "--json"), args...)
	cmd := exec.Command(line[0], line[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var d diagnosis
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("%v: %v\n%s%s", line, err, out, &stderr)
	}
	if code := cmd.ProcessState.ExitCode(); code != d.Exit {
		t.Errorf("it exits with %d, and says %d", code, d.Exit)
	}
	for _, f := range d.Findings {
		if f.Verdict == "fail" || f.Verdict == "warn" {
			t.Log(f)
		}
	}
	return d
}

// of are the findings of a verdict, as "check subject".
func (d diagnosis) of(verdict string) (found []string) {
	for _, f := range d.Findings {
		if f.Verdict == verdict {
			found = append(found, strings.TrimSuffix(f.Check+" "+word(f.Subject), " null"))
		}
	}
	return found
}

// find gives the findings of a check.
func (d diagnosis) find(check string) (found []diagnosed) {
	for _, f := range d.Findings {
		if f.Check == check {
			found = append(found, f)
		}
	}
	return found
}

// exported gives a dma-buf of some memory that every kernel of the lab can export.
func exported(t *testing.T) *dmabuf.Buffer {
	t.Helper()
	mem, err := labVGEM(t).Allocate(16 << 10)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := mem.Export(0, mem.Size())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buf.Close(); mem.Close() })
	return buf
}

// registers registers a dma-buf with a device.
func registers(t *testing.T, device string, buf *dmabuf.Buffer) error {
	t.Helper()
	dev, err := verbs.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	mr, err := pd.RegisterDMABuf(buf.FD(), buf.Offset, buf.Length, 0, verbs.LocalWrite)
	if err != nil {
		return err
	}
	return mr.Close()
}

// rxe and siw register no dma-bufs: the doctor says so, says nothing else, and the
// kernel says the same.
func TestDoctorOfADriverThatLacksDMABuf(t *testing.T) {
	device := labDevice(t)
	d := doctorSays(t, nil)
	if want := []string{"dmabuf-import " + device}; !slices.Equal(d.of("fail"), want) || d.Exit != exitUnsupported {
		t.Errorf("what fails: %q, want %q; exit code %d", d.of("fail"), want, d.Exit)
	}
	if err := registers(t, device, exported(t)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the kernel registers a dma-buf: %v", err)
	}
	for _, check := range []string{"rdma-devices", "rdma-library", "rdma-ports"} {
		if f := d.find(check); len(f) != 1 || f[0].Verdict != "ok" {
			t.Errorf("%s: %v", check, f)
		}
	}
}

// A device on an interface of its own, which can be taken down.
func TestDoctorOfAPortThatIsDown(t *testing.T) {
	labDevice(t)
	kind := strings.TrimRight(os.Getenv("PEERDIRECT_DEVICE"), "0123456789")
	output(t, "ip", "link", "add", "sick0", "type", "veth", "peer", "name", "sick1")
	defer output(t, "ip", "link", "del", "sick0")
	output(t, "ip", "address", "add", "198.51.100.1/24", "dev", "sick0")
	output(t, "rdma", "link", "add", "sick", "type", kind, "netdev", "sick0")
	d := doctorSays(t, nil, "--device", "sick", "--only", "rdma-ports")
	f := d.find("rdma-ports")
	if len(f) != 1 || f[0].Verdict != "fail" || !strings.Contains(f[0].Summary, "its network interface is down") {
		t.Fatalf("%v", f)
	}
	for _, c := range f[0].Commands {
		output(t, "sh", "-c", c)
	}
	// The other end is down still: there is no carrier.
	f = doctorSays(t, nil, "--device", "sick", "--only", "rdma-ports").find("rdma-ports")
	if len(f) != 1 || f[0].Verdict != "fail" || !strings.Contains(f[0].Summary, "no carrier") {
		t.Errorf("without the other end: %v", f)
	}
	output(t, "ip", "link", "set", "sick1", "up")
	d = doctorSays(t, nil, "--device", "sick", "--only", "rdma")
	if fails := d.of("fail"); len(fails) > 0 || d.Exit != exitOK || d.find("rdma-ports")[0].Verdict != "ok" {
		t.Errorf("with both ends up: %q, %v", fails, d.find("rdma-ports"))
	}
}

// Whoever may pin nothing is told so, and may not.
func TestDoctorWithoutMemlock(t *testing.T) {
	device := labDevice(t)
	nobody := []string{"prlimit", "--memlock=0:0", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"}
	d := doctorSays(t, nobody, "--only", "limits")
	var memlock *diagnosed
	for _, f := range d.find("memlock") {
		if f.Verdict == "fail" {
			memlock = &f
		}
	}
	if memlock == nil || word(memlock.Cause) != "permission" || memlock.Remedy == nil {
		t.Errorf("what fails: %q; of memlock %v", d.of("fail"), d.find("memlock"))
	}
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who  []string
		want string
	}{{nobody, "EPERM"}, {nil, "registered"}} {
		line := append(slices.Clone(c.who), "env", "PEERDIRECT_REGISTER="+device, program, "-test.run=^TestRegisterForTheDoctor$", "-test.v")
		if got := output(t, line[0], line[1:]...); !strings.Contains(got, "memory: "+c.want) {
			t.Errorf("%v: want %s\n%s", c.who, c.want, got)
		}
	}
}

// TestRegisterForTheDoctor is what TestDoctorWithoutMemlock runs as somebody else.
func TestRegisterForTheDoctor(t *testing.T) {
	device := os.Getenv("PEERDIRECT_REGISTER")
	if device == "" {
		return // it is a part of another test
	}
	dev, err := verbs.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	switch mr, err := pd.Register(make([]byte, 4096), verbs.LocalWrite); {
	case err == nil:
		mr.Close()
		fmt.Println("memory: registered")
	case errors.Is(err, syscall.EPERM): // of a limit of 0; of one that is too small it is ENOMEM
		fmt.Println("memory: EPERM,", err)
	default:
		t.Fatal(err)
	}
}
