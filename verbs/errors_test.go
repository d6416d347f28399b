package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

func TestErrorsMatchTheirClass(t *testing.T) {
	classes := map[string]error{
		"unsupported": ErrUnsupported, "permission": ErrPermission, "closed": ErrClosed,
		"no device": ErrNoDevice, "busy": ErrBusy,
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{syscall.EOPNOTSUPP, "unsupported"},
		{syscall.ENOSYS, "unsupported"},
		{syscall.EACCES, "permission"},
		{syscall.EPERM, "permission"},
		{syscall.ENODEV, "no device"},
		{syscall.EBUSY, "busy"},
		{ErrClosed, "closed"},
		{syscall.EINVAL, ""},
		{syscall.ENOMEM, ""},
	} {
		err := fmt.Errorf("outside: %w", failed("ibv_x", "rxe0", c.err, ""))
		for name, class := range classes {
			if got := errors.Is(err, class); got != (name == c.want) {
				t.Errorf("%v is %s: %v", c.err, name, got)
			}
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%v does not unwrap to it", err)
		}
		var e *Error
		if !errors.As(err, &e) || e.Verb != "ibv_x" || e.Object != "rxe0" {
			t.Errorf("%v is no *Error", err)
		}
	}
	if !errors.Is(unsupported("ibv_y", "z"), errors.ErrUnsupported) || !errors.Is(ErrClosed, fs.ErrClosed) {
		t.Error("the classes are not the standard library's")
	}
}

func TestErrorsReadAsOneLine(t *testing.T) {
	for want, err := range map[string]error{
		"ibv_reg_mr on rxe0 pd 3: cannot allocate memory (ENOMEM): raise the limit":       failed("ibv_reg_mr", "rxe0 pd 3", syscall.ENOMEM, "raise the limit"),
		"ibv_fork_init: invalid argument (EINVAL)":                                        failed("ibv_fork_init", "", syscall.EINVAL, ""),
		"ibv_x: input/output error (EIO): the driver or its library gave no error number": failed("ibv_x", "", nil, ""),
		"ibv_y: input/output error (EIO): the driver or its library gave no error number": failed("ibv_y", "", syscall.Errno(0), ""),
		"ibv_z: not supported (ENOTSUPP, kernel-internal error 524)":                      code("ibv_z", "", 524, ""),
		"ibv_w: errno 4000": code("ibv_w", "", 4000, ""),
		"ibv_query_gid_ex on a: unsupported operation: not in the libibverbs that is loaded":                        unsupported("ibv_query_gid_ex", "a"),
		"work request 7 on qp 18: REM_ACCESS_ERR: the peer's key, range or permission is wrong (vendor error 0x88)": &CompletionError{ID: 7, QPN: 18, Status: StatusRemoteAccess, VendorErr: 0x88},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if err := code("ibv_x", "", 0, "nothing"); err != nil {
		t.Errorf("a success is %v", err)
	}
}

func TestStatusAndEventTextsAreComplete(t *testing.T) {
	for s := StatusSuccess; s <= StatusTagMatchingRendezvous; s++ {
		if strings.HasPrefix(s.String(), "status ") {
			t.Errorf("status %d has no text", uint32(s))
		}
	}
	for e := EventCQError; e <= EventDeviceSpeedChange; e++ {
		if strings.HasPrefix(e.String(), "event ") {
			t.Errorf("event %d has no text", int(e))
		}
	}
	if got := (AsyncEvent{Type: EventPortError, Port: 2}).String(); got != "port error, port 2" {
		t.Error(got)
	}
	if got := (AsyncEvent{Type: EventQPFatal, QPN: 17}).String(); got != "queue pair fatal error, qp 17" {
		t.Error(got)
	}
	if Status(99).String() != "status 99" || EventType(99).String() != "event 99" {
		t.Error("unknown values")
	}
}

func TestFlagsArePrintedByName(t *testing.T) {
	for want, v := range map[string]fmt.Stringer{
		"none":                          Access(0),
		"LOCAL_WRITE|REMOTE_READ":       LocalWrite | RemoteRead,
		"RELAXED_ORDERING|0x80000000":   RelaxedOrdering | 1<<31,
		"MEM_WINDOW|XRC|FLUSH_GLOBAL":   CapMemWindow | CapXRC | CapFlushGlobal,
		"RC|UD|RAW_PACKET":              QPTypes(1<<2 | 1<<4 | 1<<8),
		"BYTE_LEN|COMPLETION_TIMESTAMP": WCByteLen | WCTimestamp,
		"RDMA_WRITE|FLUSH":              OpWrite | OpFlush,
		"SRC_IPV4|DST_PORT_UDP|INNER":   HashSrcIPv4 | HashDstPortUDP | HashInner,
		"SEND|ATOMIC_WRITE":             ODPOps(1<<0 | 1<<7),
		"CM_SUP|IP_BASED_GIDS":          PortCaps(1<<16 | 1<<26),
		"LINK_SPEED_NDR_SUP":            PortCaps2(1 << 10),
		"CVLAN_STRIPPING|IP_CSUM":       RawPacketCaps(1<<0 | 1<<2),
		"SEND|REMOTE_RDMA_WRITE":        CounterSend | CounterRemoteWrite,
	} {
		if got := v.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if !QPTypes(1<<2).Has(TypeRC) || QPTypes(1<<2).Has(TypeDriver) {
		t.Error("QPTypes.Has")
	}
	if names := DeviceCaps(1<<20 | 1<<63).Names(); len(names) != 2 || names[1] != "0x8000000000000000" {
		t.Errorf("names %q", names)
	}
}
