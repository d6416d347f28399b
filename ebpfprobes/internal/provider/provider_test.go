package provider

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseMapping(t *testing.T) {
	for line, want := range map[string]Mapping{
		"7f0a1000-7f0a3000 r-xp 00002000 fd:01 1234   /usr/lib/libefa.so.1.3.56.1": {
			Start: 0x7f0a1000, End: 0x7f0a3000, Offset: 0x2000, Device: 0xfd01, Inode: 1234,
			Path: "/usr/lib/libefa.so.1.3.56.1", read: true, execute: true},
		"7f0a1000-7f0a3000 r-xp 00000000 08:10 9 /a b/libx-rdmav34.so (deleted)": {
			Start: 0x7f0a1000, End: 0x7f0a3000, Device: 0x810, Inode: 9,
			Path: "/a b/libx-rdmav34.so", Deleted: true, read: true, execute: true},
		`1000-2000 rw-p 00000000 00:00 0 `:        {Start: 0x1000, End: 0x2000, read: true, write: true},
		`1000-2000 rw-p 00000000 00:00 0 [heap]`:  {Start: 0x1000, End: 0x2000, Path: "[heap]", read: true, write: true},
		`1000-2000 r--s 00000000 00:05 7 /x\012y`: {Start: 0x1000, End: 0x2000, Device: 5, Inode: 7, Path: "/x\ny", read: true},
	} {
		if got, err := parseMapping(line); err != nil || got != want {
			t.Errorf("%q is\n%+v, %v; want\n%+v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "x-y r-xp 0 0:0 0", "1000 r-xp 0 0:0 0", "1000-2000 r-xp 0 0 0"} {
		if m, err := parseMapping(line); err == nil {
			t.Errorf("%q is %+v", line, m)
		}
	}
}

func TestProviderNames(t *testing.T) {
	for name, want := range map[string]bool{
		"libmlx5.so.1.25.56.1": true, "libefa.so.1": true, "librxe-rdmav34.so": true, "libbnxt_re-rdmav65.so": true,
		"libibverbs.so.1.14.56.1": false, "libmlx5x.so.1": false, "librdmacm.so.1": false, "libefa.so.bak": false,
	} {
		if got := isProvider(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLayouts(t *testing.T) {
	for private, want := range map[string][]int{
		"IBVERBS_PRIVATE_34": {75, 76}, "IBVERBS_PRIVATE_65": {93}, "IBVERBS_PRIVATE_33": nil, "": nil, "IBVERBS_1.1": nil,
	} {
		var got []int
		for _, names := range layouts(private) {
			if !slices.IsSorted(names) {
				t.Errorf("%s: not in order: %v", private, names)
			}
			got = append(got, len(names))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v names; want %v", private, got, want)
		}
	}
	if n := len(layouts("IBVERBS_PRIVATE_58")); n != 32 {
		t.Errorf("between the versions that were read: %d layouts", n)
	}
}

func TestReferences(t *testing.T) {
	var got []uint64
	note := func(a uint64) { got = append(got, a) }
	// lea rsi, [rip+0x100]; nop; lea r15, [rip-0x10]; lea rsi, [rsi+1], which is none.
	leaTargets([]byte{0x48, 0x8d, 0x35, 0, 1, 0, 0, 0x90, 0x4c, 0x8d, 0x3d, 0xf0, 0xff, 0xff, 0xff, 0x48, 0x8d, 0x76, 1}, 0x1000, note)
	if want := []uint64{0x1107, 0xfff}; !slices.Equal(got, want) {
		t.Errorf("lea: %#x; want %#x", got, want)
	}
	got = nil
	// adrp x1, +0x3000; mov x0, x2; add x1, x1, #0x18; adrp x2, -0x1000; add x3, x1, #4 (another's).
	var code []byte
	for _, w := range []uint32{0xf0000001, 0xaa0203e0, 0x91006021, 0xf0ffffe2, 0x91001023} {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	adrpTargets(code, 0x4010, note)
	if want := []uint64{0x7018}; !slices.Equal(got, want) {
		t.Errorf("adrp: %#x; want %#x", got, want)
	}
}

// installed opens a provider of this machine's distribution.
func installed(t *testing.T, name string) (*Library, string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/*/libibverbs/lib" + name + "-rdmav*.so")
	if len(found) == 0 {
		t.Skipf("needs lib%s: 'apt-get install ibverbs-providers'", name)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	l, err := ReadLibrary(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return l, found[0]
}

func TestInstalledProviders(t *testing.T) {
	for name, ways := range map[string]int{"mlx5": 2, "efa": 1, "rxe": 1, "irdma": 1, "bnxt_re": 1, "cxgb4": 1} {
		t.Run(name, func(t *testing.T) {
			l, _ := installed(t, name)
			o, err := l.Operations()
			if err != nil {
				t.Fatal(err)
			}
			if len(o[PollCQ]) != ways || len(o[PostSend]) != 1 || len(o[PostRecv]) != 1 {
				t.Errorf("%#x", o)
			}
			if (len(o[EndPoll]) > 0) != (name == "mlx5") {
				t.Errorf("end_poll at %#x", o[EndPoll])
			}
			for role, functions := range o {
				for _, f := range functions {
					if _, err := l.Site(f); err != nil {
						t.Errorf("%s: %v", role, err)
					}
				}
			}
		})
	}
}

func TestNoProvider(t *testing.T) {
	if _, err := ReadLibrary(strings.NewReader("#!/bin/sh\n")); err == nil {
		t.Error("a script was read")
	}
	found, _ := filepath.Glob("/usr/lib/*/libibverbs.so.1")
	if len(found) == 0 {
		t.Skip("needs libibverbs: 'apt-get install libibverbs1'")
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	l, err := ReadLibrary(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := l.Operations(); !errors.Is(err, ErrUnknown) {
		t.Errorf("libibverbs itself: %v, %v", o, err)
	}
}

// TestLive has a process hold pointers into a real library.
func TestLive(t *testing.T) {
	l, path := installed(t, "efa")
	o, err := l.Operations()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "holder")
	if out, err := exec.Command("gcc", "-Wall", "-o", program, "testdata/holder.c", "-ldl", "-libverbs").CombinedOutput(); err != nil {
		t.Skipf("needs gcc and libibverbs-dev: %v: %s", err, out)
	}
	address := func(a uint64) string { return fmt.Sprintf("%#x", a) }
	poll, send, receive := o[PollCQ][0], o[PostSend][0], o[PostRecv][0]
	cmd := exec.Command(program, path, address(poll), address(send), address(receive), address(poll+32), address(send+32))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var held uint64
	if _, err := fmt.Fscanf(bufio.NewReader(out), "%v\n", &held); err != nil {
		t.Fatal(err)
	}
	process, err := OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	found, err := process.Live()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("needs to read another process's memory: %v", err)
	}
	if err != nil || len(found) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	c := found[0]
	if c.Address != held || c.Device != "held_0" {
		t.Errorf("context %#x of %q; it is at %#x", c.Address, c.Device, held)
	}
	for role, want := range map[Role]uint64{
		PollCQ: poll, PostSend: send, PostRecv: receive, StartPoll: poll + 32, NextPoll: poll + 32, EndPoll: poll + 32,
		WRComplete: send + 32, "wr_send": send + 32,
	} {
		offset, err := l.Offset(want)
		if err != nil || !slices.Equal(c.Found[role], []uint64{offset}) {
			t.Errorf("%s at %#x; want %#x, %v", role, c.Found[role], offset, err)
		}
	}
	if name, err := DeviceName(cmd.Process.Pid, held); err != nil || name != "held_0" {
		t.Errorf("%q, %v", name, err)
	}
	again, file, note, err := process.Open(c.Library)
	if err != nil || note != "" {
		t.Fatalf("%s: %q, %v", file, note, err)
	}
	if o2, err := again.Operations(); err != nil || !slices.Equal(o2[PollCQ], o[PollCQ]) {
		t.Errorf("%v, %v", o2, err)
	}
	if _, err := OpenProcess(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
