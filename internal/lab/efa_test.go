package lab

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEFAArguments(t *testing.T) {
	got := efaArguments([]string{`/tmp/a,"b`}, pcieTree(1, 0, false).efa)
	want := []string{"-device", `{"driver":"vfio-user-pci","socket":{"type":"unix","path":"/tmp/a,\"b"}}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = efaArguments([]string{"0", "1"}, pcieTree(2, 0, false).efa)
	if last := got[len(got)-1]; !strings.Contains(last, `"bus":"port1.0"`) {
		t.Errorf("the second of two devices: %s", last)
	}
}

// EFA devices replace the link's, unless a link is asked for.
func TestEFALink(t *testing.T) {
	for link, want := range map[Link]Link{"": LinkNone, LinkRXE: LinkRXE, LinkSIW: LinkSIW} {
		o := Options{Command: []string{"true"}, Link: link, EFA: EFA{Count: 1}}
		if err := o.setDefaults(); err != nil || o.Link != want {
			t.Errorf("%q became %q, %v; want %q", link, o.Link, err, want)
		}
	}
}

// The sockets are private, and gone once a client has come, and so is their
// folder; closing ends everything however often.
func TestEFAServers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := EFA{Count: 2}.serve(2, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(s.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
	for node := range 2 {
		for _, path := range s.sockets(node) {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("a socket: %v, %v", info, err)
			}
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
	}
	if err := poll(5*time.Second, func() error {
		if _, err := os.Stat(s.dir); err == nil {
			return os.ErrExist
		}
		return nil
	}); err != nil {
		t.Error("the sockets' folder stays after all clients have come")
	}
	s.close()
	s.close()
	(*efaServers)(nil).close()
}

// Nobody comes: what was listened on goes too.
func TestEFAServersUnused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := EFA{Count: 1}.serve(1, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
