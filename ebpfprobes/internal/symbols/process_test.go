package symbols

import (
	"os/exec"
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
