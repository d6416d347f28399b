package symbols

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"
)

// A stack that leads nowhere ends there: data do not become functions.
func TestUnwindGoneAstray(t *testing.T) {
	ticks, _, err := startTicks(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	set := NewSet()
	defer set.Close()
	p := set.See(ID{os.Getpid(), ticks * nsPerTick})
	if p.Err() != nil {
		t.Fatal(p.Err())
	}
	s := Snapshot{PC: uint64(reflect.ValueOf(strings.Repeat).Pointer()), Stack: bytes.Repeat([]byte{0x11}, 1024), Chain: []uint64{1, 2, 3}}
	addresses, whole := p.Unwind(s)
	if len(addresses) != 1 || whole {
		t.Errorf("%#x, whole %v", addresses, whole)
	}
	if f := p.Name(addresses); f[0].Function != "strings.Repeat" {
		t.Errorf("%+v", f)
	}
	if _, ok := set.processes[ID{os.Getpid(), ticks * nsPerTick}]; !ok {
		t.Error("the process was forgotten")
	}
	set.Keep(func(ID) bool { return false })
	if len(set.processes)+len(set.binaries) != 0 {
		t.Errorf("%d processes and %d files are kept for nobody", len(set.processes), len(set.binaries))
	}
	gone := set.See(ID{os.Getpid(), (ticks - 1) * nsPerTick})
	if gone.Err() == nil {
		t.Error("another process of the same number was taken for it")
	}
}
