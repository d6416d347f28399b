package verbs

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// onLabGuest skips tests of a machine without devices.
func onLabGuest(t *testing.T) {
	if os.Getenv("PEERDIRECT_DEVICE") != "" {
		t.Skip("needs a machine without RDMA devices, as the host of the lab is")
	}
	if list, _ := os.ReadDir("/sys/class/infiniband"); len(list) > 0 {
		t.Skip("needs a machine without RDMA devices, as the host of the lab is")
	}
}

// oneLine checks what a person sees.
func oneLine(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, ErrNoDevice) {
		t.Fatalf("got %v, want ErrNoDevice", err)
	}
	text := err.Error()
	if strings.Contains(text, "\n") {
		t.Errorf("more than one line: %s", text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
}

func TestAMachineWithoutDevicesSaysWhatToDo(t *testing.T) {
	onLabGuest(t)
	word := "modprobe ib_uverbs"
	if _, err := os.Stat("/sys/class/infiniband_verbs"); err == nil {
		word = "rdma link add"
	}
	if _, err := Library(); err != nil {
		word = "libibverbs1"
	}
	_, err := Devices()
	oneLine(t, err, word)
	for _, name := range []string{"", "rxe0"} {
		_, err = Open(name)
		oneLine(t, err, word)
	}
}

// Each of these runs in a process of its own, because a library is loaded once.
func TestALibraryThatCannotBeUsedSaysSo(t *testing.T) {
	const env = "PEERDIRECT_TEST_LIBRARY"
	switch names := os.Getenv(env); names {
	case "":
		for _, names := range []string{"libno-such-verbs.so.1", "libc.so.6"} {
			cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
			cmd.Env = append(os.Environ(), env+"="+names)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS") {
				t.Errorf("with %s: %v\n%s", names, err, out)
			}
		}
	case "libc.so.6":
		// A library that loads and lacks the functions, as an ancient one would.
		libraryNames = []string{names}
		_, err := Devices()
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "ibv_get_device_list") || !strings.Contains(err.Error(), "install a newer libibverbs1") {
			t.Errorf("got %v", err)
		}
	default:
		libraryNames = []string{names, "libneither.so"}
		_, err := Devices()
		oneLine(t, err, names, "libneither.so", "install", "libibverbs1")
		_, err = Open("rxe0")
		oneLine(t, err, "libibverbs1")
		_, err = ForkStatus()
		oneLine(t, err)
		_, err = ImportDevice(3)
		oneLine(t, err)
		oneLine(t, ForkInit())
		if HasFunction("ibv_reg_mr") {
			t.Error("a library that is not there has a function")
		}
		if path, err := Library(); path != "" || err == nil {
			t.Errorf("library %q, %v", path, err)
		}
	}
}

func TestTheLibrarysFunctionsAreFoundByName(t *testing.T) {
	switch _, err := Library(); {
	case errors.Is(err, ErrNoDevice):
		t.Skip("needs libibverbs.so.1, of libibverbs1: ", err)
	case err != nil:
		t.Fatal(err)
	}
	if !HasFunction("ibv_reg_mr") || HasFunction("ibv_no_such_function") {
		t.Error("HasFunction")
	}
}
