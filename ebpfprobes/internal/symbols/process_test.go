package symbols

import (
	"errors"
	"os"
	"os/exec"
	"reflect"
	"syscall"
	"testing"
	"time"
)

// TestEndedIsNotAlive: a process is no more though its parent has not asked for its end.
func TestEndedIsNotAlive(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	began, _, err := startTicks(child.Process.Pid)
	id := ID{PID: child.Process.Pid, Began: began * nsPerTick}
	if err != nil || !id.Alive() {
		t.Errorf("%v, %v", id, err)
	}
	in.Close()
	for end := time.Now().Add(10 * time.Second); id.Alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is alive still")
		}
	}
}

// TestReadAgain has no descriptor left when a process is seen first: it is read later.
func TestReadAgain(t *testing.T) {
	began, _, err := startTicks(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	set := NewSet()
	defer set.Close()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	p := set.See(ID{os.Getpid(), began * nsPerTick})
	why := p.Err()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(why, syscall.EMFILE) || errors.Is(why, errGone) {
		t.Fatalf("%v, want EMFILE", why)
	}
	here := uint64(reflect.ValueOf(TestReadAgain).Pointer())
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if f := p.Name([]uint64{here})[0]; f.Function != "" && p.Err() == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("is not read again: %v", p.Err())
		}
	}
}
