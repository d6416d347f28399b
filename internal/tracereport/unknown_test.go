package tracereport

import (
	"bytes"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/errname"
)

// TestUnknownCause: what system calls alone do not tell is null, and no part of the kernel
// is blamed; the hint is the likeliest.
func TestUnknownCause(t *testing.T) {
	for _, c := range []struct {
		err  syscall.Errno
		hint string
	}{{syscall.ENOMEM, "locked memory"}, {syscall.EFAULT, "not mapped"}, {syscall.EINVAL, "argument"}, {syscall.EXDEV, ""}} {
		r := Registrations{Failures: []ebpfprobes.RegistrationFailure{{PID: 7, Kind: ebpfprobes.Host, Err: c.err, CausePhase: ebpfprobes.UnknownPhase, Count: 3}}}
		var text, records bytes.Buffer
		if err := r.WriteText(&text, Layout{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "which part failed is not told") || strings.Contains(text.String(), " returned ") || !strings.Contains(text.String(), c.hint) {
			t.Errorf("%v:\n%s", c.err, &text)
		}
		if err := r.WriteRecords(NewStream(&records, RegistrationsSchema)); err != nil {
			t.Fatal(err)
		}
		var f struct {
			Cause, Phase, Hint *string
			Errno              string
		}
		if err := json.NewDecoder(&records).Decode(&f); err != nil || f.Cause != nil || f.Phase != nil || f.Errno != errname.Of(c.err) || (f.Hint != nil) != (c.hint != "") {
			t.Errorf("%v: %+v, %v", c.err, f, err)
		}
	}
}

// TestUnknownLength: a deregistration of what was registered before is no region of 0 bytes.
func TestUnknownLength(t *testing.T) {
	for operation, want := range map[ebpfprobes.Operation][2]string{
		ebpfprobes.Deregister: {"deregister host ? at", `"length":null`},
		ebpfprobes.Register:   {"register host 0 at", `"length":0`},
	} {
		e := &ebpfprobes.Registration{At: time.Unix(0, 0), Operation: operation, Kind: ebpfprobes.Host}
		var text, record bytes.Buffer
		if err := WriteEvent(&text, e, nil); err != nil {
			t.Fatal(err)
		}
		if err := NewStream(&record, RegistrationsSchema).Event(e, nil); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), want[0]) || !strings.Contains(record.String(), want[1]) {
			t.Errorf("%v:\n%s%s", operation, &text, &record)
		}
	}
}
