package watch

import (
	"errors"
	"testing"
)

func TestUevents(t *testing.T) {
	for name, c := range map[string]struct {
		text                    string
		action, path, subsystem string
	}{
		"add": {"add@/devices/pci0000:00/0000:00:02.0\x00ACTION=add\x00DEVPATH=/devices/pci0000:00/0000:00:02.0\x00SUBSYSTEM=pci\x00SEQNUM=7\x00",
			"add", "/devices/pci0000:00/0000:00:02.0", "pci"},
		"value with =": {"change@/x\x00SUBSYSTEM=net\x00MODALIAS=a=b\x00", "change", "/x", "net"},
		"cut":          {"bind@/devices/pci0\x00SUBSYS", "bind", "/devices/pci0", ""},
		"bare":         {"remove@/y", "remove", "/y", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Parse([]byte(c.text))
			if err != nil || e.Action != c.action || e.Path != c.path || e.Subsystem != c.subsystem {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
	// udevd sends its own form to another group; nothing else is taken for an event.
	for _, text := range []string{"", "\x00", "libudev\x00\xfe\xed\xca\xfe", "add", "@/x", "add@x", "=\x00@"} {
		if e, err := Parse([]byte(text)); !errors.Is(err, ErrMessage) {
			t.Errorf("%q: %+v, %v", text, e, err)
		}
	}
}

func FuzzUevent(f *testing.F) {
	f.Add([]byte("add@/devices/pci0000:00/0000:00:02.0\x00ACTION=add\x00SUBSYSTEM=pci\x00"))
	f.Add([]byte("libudev\x00\xfe\xed\xca\xfe"))
	f.Add([]byte("@"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Parse(b)
		if err == nil && (e.Action == "" || e.Path == "" || e.Env == nil) {
			t.Errorf("%q: %+v", b, e)
		}
	})
}
