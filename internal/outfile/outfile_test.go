package outfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// only fails the test unless the folder holds nothing but one file, with that text.
func only(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestAFileIsWholeOrAsItWas(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.svg")
	broken := errors.New("broken")
	fail := func(w io.Writer) error {
		io.WriteString(w, "half")
		return broken
	}
	if err := Write(name, fail); !errors.Is(err, broken) {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(name)); len(entries) != 0 {
		t.Errorf("%v is left", entries)
	}
	if err := Write(name, text("one")); err != nil {
		t.Fatal(err)
	}
	only(t, name, "one")
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(name, fail); !errors.Is(err, broken) {
		t.Error(err)
	}
	only(t, name, "one")
	if err := Write(name, text("two")); err != nil {
		t.Fatal(err)
	}
	only(t, name, "two")
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

func TestALinkIsFollowed(t *testing.T) {
	name, link := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	if err := os.WriteFile(name, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, text("two")); err != nil {
		t.Fatal(err)
	}
	only(t, name, "two")
	if to, err := os.Readlink(link); err != nil || to != name {
		t.Errorf("the link is %q, %v", to, err)
	}
}

func TestWhatIsNoFileStays(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		b, _ := os.ReadFile(name)
		got <- string(b)
	}()
	if err := Write(name, text("one")); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "one" {
		t.Errorf("%q came out", s)
	}
	if info, err := os.Lstat(name); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("it is %v, %v", info, err)
	}
	if err := Write(t.TempDir(), text("one")); err == nil {
		t.Error("a folder was written")
	}
}

func TestNoFolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "missing", "a")
	err := Write(name, text("one"))
	var p *fs.PathError
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &p) || p.Path != name || !strings.Contains(err.Error(), "make the folder "+filepath.Dir(name)) {
		t.Error(err)
	}
}

func TestCheckFindsWhatWriteWould(t *testing.T) {
	dir := t.TempDir()
	fifo, there := filepath.Join(dir, "fifo"), filepath.Join(dir, "there")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(there, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		filepath.Join(dir, "new"): nil, there: nil, fifo: nil, os.DevNull: nil,
		filepath.Join(dir, "none", "a"): fs.ErrNotExist, filepath.Join(there, "a"): syscall.ENOTDIR,
	} {
		if err := Check(name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if err := Check(dir); err == nil {
		t.Error("a folder was taken")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v: it left something", entries, err)
	}
	if old, err := os.ReadFile(there); err != nil || string(old) != "old" {
		t.Errorf("%q, %v", old, err)
	}
}
