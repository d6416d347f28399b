package golden

import (
	"io"
	"os"
	"testing"
)

// Stdout runs f and gives what it printed: for tests that run, on a device, the
// examples that need one.
func Stdout(t testing.TB, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	printed := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(r)
		printed <- string(b)
	}()
	saved := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = saved; w.Close() }()
	f()
	w.Close()
	return <-printed
}
