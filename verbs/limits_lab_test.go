//go:build lab

package verbs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestARegistrationThatCannotBeSaysWhy(t *testing.T) {
	dev := device(t)
	pd := must[*PD](t)(dev.AllocPD())
	mem := must[*Buffer](t)(NewBuffer(4096, BufferOptions{}))
	a, err := dev.Attr()
	if err != nil {
		t.Fatal(err)
	}
	start := unsafe.Pointer(unsafe.SliceData(mem.Bytes()))

	_, err = pd.Register(nil, LocalWrite)
	refused(t, err, errInvalid, "at least one byte")

	mr, err := pd.RegisterAddress(start, 0, 0, LocalWrite)
	if err == nil {
		t.Log("this driver registers no bytes")
		must[*MR](t)(mr, nil)
		if s := mr.At(0, 1); !s.bad {
			t.Error("a region of no bytes has a first one")
		}
	} else {
		refused(t, err, errInvalid, "at least one byte")
	}

	_, err = pd.Register(mem.Bytes(), RemoteWrite)
	refused(t, err, errInvalid, "need LOCAL_WRITE too")

	// More than any process can have mapped.
	if huge, err := pd.RegisterAddress(start, 1<<46, 0, LocalWrite); err == nil {
		must[*MR](t)(huge, nil)
		// siw of linux 6.1 counts the pages in an int, and registers none.
		if dev.Transport() != TransportIWARP {
			t.Error("64 TiB were registered")
		}
	} else if !errors.Is(err, syscall.EFAULT) && !errors.Is(err, syscall.ENOMEM) && !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	} else {
		t.Log(err)
	}
	if a.MaxMRSize < math.MaxInt64 {
		_, err := pd.RegisterAddress(start, a.MaxMRSize+4096, 0, LocalWrite)
		if err == nil {
			t.Error("registered over max_mr_size")
		}
		t.Logf("max_mr_size %d: %v", a.MaxMRSize, err)
	} else {
		t.Logf("the device has no limit of its own: max_mr_size is %#x", a.MaxMRSize)
	}

	ok, err := pd.ImportsDMABuf()
	if err != nil {
		t.Error(err)
	}
	if !ok {
		_, err := pd.RegisterDMABuf(-1, 0, 4096, 0, LocalWrite)
		refused(t, err, ErrUnsupported, "imports no dma-bufs")
	}
	if n := Live()["mr"]; n > 1 {
		t.Errorf("%d regions are counted after failures", n)
	}
}

func TestSizesOverTheDevicesLimitsAreNamed(t *testing.T) {
	dev := device(t)
	pd := must[*PD](t)(dev.AllocPD())
	cq := must[*CQ](t)(dev.CreateCQ(CQOptions{}))
	a, err := dev.Attr()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		try   func() error
		words []string
	}{
		"CQ depth": {func() error { _, err := dev.CreateCQ(CQOptions{Depth: a.MaxCQE + 1}); return err },
			[]string{"max_cqe", fmt.Sprint(a.MaxCQE)}},
		"CQ depth below 0": {func() error { _, err := dev.CreateCQ(CQOptions{Depth: -5}); return err },
			[]string{"above 0"}},
		"CQ vector": {func() error { _, err := dev.CreateCQ(CQOptions{Vector: dev.Vectors()}); return err },
			[]string{fmt.Sprintf("%d completion vectors", dev.Vectors())}},
		"send queue": {func() error { _, err := pd.CreateQP(QPOptions{CQ: cq, MaxSend: a.MaxQPWR + 1}); return err },
			[]string{"MaxSend", fmt.Sprint(a.MaxQPWR)}},
		"receive queue": {func() error { _, err := pd.CreateQP(QPOptions{CQ: cq, MaxRecv: a.MaxQPWR + 1}); return err },
			[]string{"MaxRecv", fmt.Sprint(a.MaxQPWR)}},
		"buffers": {func() error { _, err := pd.CreateQP(QPOptions{CQ: cq, MaxSendSGE: a.MaxSGE + 1}); return err },
			[]string{"MaxSendSGE", fmt.Sprint(a.MaxSGE)}},
		"inline": {func() error { _, err := pd.CreateQP(QPOptions{CQ: cq, MaxInline: 1 << 20}); return err },
			[]string{"MaxInline"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.try()
			if err == nil {
				t.Fatal("it was made")
			}
			if errors.Is(err, errNoMemory) {
				t.Log(err) // some drivers try
				return
			}
			refused(t, err, errInvalid, c.words...)
		})
	}
	if n := Live()["qp"]; n != 0 {
		t.Errorf("%d queue pairs are counted after failures", n)
	}
}

func TestInlineDataOverTheLimitIsRefused(t *testing.T) {
	p := connected(t, QPOptions{MaxInline: 32}, 8192, ConnectOptions{})
	room := p.qp[0].MaxInline()
	if room < 32 {
		t.Fatalf("room for %d bytes, 32 were asked for", room)
	}
	if room > 4096 {
		t.Skipf("the driver has room for %d bytes", room)
	}
	b, _ := batches(t, p.qp[0].QP)
	fill(p.mem[0].Bytes(), 1)
	b.Write(p.mr[0].At(0, uint32(room)), p.mr[1].Remote().At(0), 1).Flags(Inline)
	if s := status(t, p.cq[0], b); s[0] != StatusSuccess {
		t.Errorf("as much as there is room for: %v", s[0])
	}
	b.Write(p.mr[0].At(0, uint32(room)+1), p.mr[1].Remote().At(0), 2).Flags(Inline)
	refused(t, b.Post(), errInvalid, "inline")
	nothing(t, p.cq[0])
}

// TestTheMemlockLimitIsNamed runs itself again as a process that may lock
// little or nothing.
func TestTheMemlockLimitIsNamed(t *testing.T) {
	const env = "PEERDIRECT_TEST_MEMLOCK"
	switch os.Getenv(env) {
	case "":
		device(t)
		for _, limit := range []string{"0", "65536"} {
			cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
			cmd.Env = append(os.Environ(), env+"="+limit)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS") {
				t.Errorf("with a limit of %s: %v\n%s", limit, err, out)
			}
		}
	case "0":
		err := registerWithin(t, 0)
		class := ErrPermission
		if errors.Is(err, errNoMemory) { // siw of linux 6.1 looks at the limit itself
			class = errNoMemory
		}
		refused(t, err, class, "memlock limit is 0 bytes", "ulimit -l")
	default:
		refused(t, registerWithin(t, 65536), errNoMemory, "memlock limit is 65536 bytes", "ulimit -l")
	}
}

func registerWithin(t *testing.T, limit uint64) error {
	dev := device(t)
	pd := must[*PD](t)(dev.AllocPD())
	mem := must[*Buffer](t)(NewBuffer(1<<20, BufferOptions{}))
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	// Another user has no CAP_IPC_LOCK, which would lift the limit.
	if err := syscall.Setuid(65534); err != nil {
		t.Fatal(err)
	}
	mr, err := pd.Register(mem.Bytes(), LocalWrite)
	if err == nil {
		mr.Close()
		t.Fatal("registered over the limit")
	}
	return err
}
