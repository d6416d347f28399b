package dl

import (
	"errors"
	"strings"
	"testing"
)

func TestOpenTakesTheFirstThatExists(t *testing.T) {
	l, err := Open("libno-such-thing.so.9", "libc.so.6")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(l.Path(), "libc.so.6") {
		t.Errorf("path %q", l.Path())
	}
	if l.Symbol("getpid") == nil {
		t.Error("getpid not found in libc")
	}
	if l.Symbol("no_such_symbol") != nil {
		t.Error("found a symbol that does not exist")
	}
	if l.Version("getpid", "GLIBC_2.2.5") == nil {
		t.Error("getpid@GLIBC_2.2.5 not found")
	}
	if l.Version("getpid", "GLIBC_9.9") != nil {
		t.Error("found a version that does not exist")
	}
}

func TestOpenNamesWhatItTried(t *testing.T) {
	_, err := Open("libno-such-thing.so.9")
	var nf *NotFoundError
	if !errors.As(err, &nf) || !strings.Contains(err.Error(), "libno-such-thing.so.9") {
		t.Errorf("got %v", err)
	}
}
