package rdmacm

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The compiler knows the header's layouts best: a program of assertions is
// compiled against it, where there is one.
func TestLayoutsAgreeWithHeader(t *testing.T) {
	const header = "/usr/include/rdma/rdma_user_cm.h"
	if _, err := os.Stat(header); err != nil {
		t.Skip("no " + header + ": install linux-libc-dev")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	var b strings.Builder
	b.WriteString("#include <stddef.h>\n#include <sys/socket.h>\n#include <netinet/in.h>\n#include <rdma/rdma_user_cm.h>\n")
	assert := func(left string, right int) {
		fmt.Fprintf(&b, "_Static_assert(%s == %d, %q);\n", left, right, left)
	}
	for name, num := range map[string]uint32{
		"CREATE_ID": cmdCreateID, "DESTROY_ID": cmdDestroyID, "RESOLVE_ROUTE": cmdResolveRoute,
		"CONNECT": cmdConnect, "LISTEN": cmdListen, "ACCEPT": cmdAccept, "REJECT": cmdReject,
		"DISCONNECT": cmdDisconnect, "INIT_QP_ATTR": cmdInitQPAttr, "GET_EVENT": cmdGetEvent,
		"QUERY": cmdQuery, "BIND": cmdBind, "RESOLVE_ADDR": cmdResolveAddr,
	} {
		assert("RDMA_USER_CM_CMD_"+name, int(num))
		if commandName(num) != name {
			t.Errorf("command %d is called %s", num, commandName(num))
		}
	}
	assert("RDMA_PS_TCP", portSpaceTCP)
	assert("RDMA_USER_CM_QUERY_ADDR", queryAddr)
	assert("RDMA_MAX_PRIVATE_DATA", privateSize)
	assert("RDMA_USER_CM_ABI_VERSION", 4)
	size := func(name string, n int) { assert("sizeof(struct "+name+")", n) }
	at := func(name, field string, n int) { assert("offsetof(struct "+name+", "+field+")", n) }

	bound, err := bind(1, netip.MustParseAddrPort("192.0.2.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := resolveAddr(1, netip.AddrPort{}, netip.MustParseAddrPort("192.0.2.1:1"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var p Params
	for name, c := range map[string]command{
		"create_id": createID(1), "destroy_id": destroyID(1), "bind": bound, "resolve_addr": resolved,
		"resolve_route": resolveRoute(1, time.Second), "query": query(1), "listen": listen(1, 1),
		"connect": connect(1, &p), "accept": accept(1, 1, &p), "reject": reject(1, nil),
		"disconnect": disconnect(1), "init_qp_attr": initQPAttr(1, StateInit), "get_event": getEvent(make([]byte, eventSize)),
	} {
		size("rdma_ucm_"+name, len(c.body))
		if c.answer != nil {
			at("rdma_ucm_"+name, "response", c.answerAt)
		}
	}
	size("rdma_ucm_cmd_hdr", headerSize)
	size("rdma_ucm_create_id_resp", len(createID(1).answer))
	size("rdma_ucm_destroy_id_resp", len(destroyID(1).answer))
	size("rdma_ucm_query_addr_resp", queryAddrSize)
	size("rdma_ucm_event_resp", eventSize)
	size("rdma_ucm_conn_param", connParamSize)
	size("ib_uverbs_qp_attr", qpAttrSize)
	size("__kernel_sockaddr_storage", storageSize)
	size("sockaddr_in", sockaddrInSize)
	size("sockaddr_in6", sockaddr6Size)

	at("rdma_ucm_create_id", "ps", 16)
	at("rdma_ucm_create_id", "qp_type", 18)
	at("rdma_ucm_destroy_id", "id", 8)
	at("rdma_ucm_bind", "addr_size", 4)
	at("rdma_ucm_bind", "addr", 8)
	at("rdma_ucm_resolve_addr", "timeout_ms", 4)
	at("rdma_ucm_resolve_addr", "src_size", 8)
	at("rdma_ucm_resolve_addr", "dst_size", 10)
	at("rdma_ucm_resolve_addr", "src_addr", 16)
	at("rdma_ucm_resolve_addr", "dst_addr", 16+storageSize)
	at("rdma_ucm_query", "id", 8)
	at("rdma_ucm_query", "option", 12)
	at("rdma_ucm_connect", "id", connParamSize)
	at("rdma_ucm_accept", "conn_param", 8)
	at("rdma_ucm_accept", "id", 8+connParamSize)
	at("rdma_ucm_conn_param", "private_data", 8)
	for i, field := range []string{"private_data_len", "srq", "responder_resources", "initiator_depth", "flow_control", "retry_count", "rnr_retry_count", "valid"} {
		at("rdma_ucm_conn_param", field, 8+privateSize+i)
	}
	at("rdma_ucm_reject", "private_data_len", 4)
	at("rdma_ucm_reject", "reason", 5)
	at("rdma_ucm_reject", "private_data", 8)
	at("rdma_ucm_init_qp_attr", "id", 8)
	at("rdma_ucm_init_qp_attr", "qp_state", 12)
	at("rdma_ucm_query_addr_resp", "port_num", 8)
	at("rdma_ucm_query_addr_resp", "src_addr", 16)
	at("rdma_ucm_query_addr_resp", "dst_addr", 16+storageSize)
	at("rdma_ucm_query_addr_resp", "ibdev_index", queryAddrIndex)
	at("rdma_ucm_event_resp", "id", 8)
	at("rdma_ucm_event_resp", "event", 12)
	at("rdma_ucm_event_resp", "status", 16)
	at("rdma_ucm_event_resp", "param", 20)
	at("rdma_ucm_event_resp", "reserved", eventSizeOld)
	for field, n := range map[string]int{
		"qp_attr_mask": 0, "qp_state": 4, "path_mtu": 12, "qkey": 20, "rq_psn": 24, "sq_psn": 28, "dest_qp_num": 32,
		"qp_access_flags": 36, "ah_attr": 40, "ah_attr.grh.dgid": 40, "ah_attr.grh.flow_label": 56,
		"ah_attr.grh.sgid_index": 60, "ah_attr.grh.hop_limit": 61, "ah_attr.grh.traffic_class": 62, "ah_attr.dlid": 64,
		"ah_attr.sl": 66, "ah_attr.src_path_bits": 67, "ah_attr.static_rate": 68, "ah_attr.is_global": 69,
		"ah_attr.port_num": 70, "pkey_index": 124, "max_rd_atomic": 130, "max_dest_rd_atomic": 131, "min_rnr_timer": 132,
		"port_num": 133, "timeout": 134, "retry_cnt": 135, "rnr_retry": 136,
	} {
		at("ib_uverbs_qp_attr", field, n)
	}

	source := filepath.Join(t.TempDir(), "layouts.c")
	if err := os.WriteFile(source, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-fsyntax-only", source).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSockaddr(t *testing.T) {
	for _, text := range []string{"192.0.2.1:80", "[2001:db8::1]:65535", "[fe80::1%7]:9", "0.0.0.0:0"} {
		want := netip.MustParseAddrPort(text)
		b := make([]byte, storageSize)
		if _, err := putSockaddr(b, want); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := sockaddr(b); got != want {
			t.Errorf("%s came back as %s", text, got)
		}
	}
	mapped := make([]byte, storageSize)
	if n, err := putSockaddr(mapped, netip.MustParseAddrPort("[::ffff:192.0.2.1]:80")); n != sockaddrInSize || err != nil {
		t.Errorf("a mapped IPv4 address takes %d bytes: %v", n, err)
	}
	for _, bad := range []netip.AddrPort{{}, netip.AddrPortFrom(netip.MustParseAddr("fe80::1%nosuchinterface"), 1)} {
		if _, err := putSockaddr(make([]byte, storageSize), bad); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, eventSizeOld))
	f.Add(bytes.Repeat([]byte{0xff}, eventSize))
	f.Add(encodeEvent(3, 4, Event{Type: EventRejected, Status: -104, Private: []byte("no")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		ev, err := decodeEvent(b)
		if err != nil {
			if len(b) >= eventSizeOld {
				t.Fatalf("%d bytes: %v", len(b), err)
			}
			return
		}
		if len(ev.Private) > MaxPrivate {
			t.Fatalf("%d bytes of private data", len(ev.Private))
		}
		if detail, err := ev.failure(); err == nil || detail == "" || ev.Type.String() == "" {
			t.Fatalf("event %+v has error %v, %q", ev, err, detail)
		}
		again, err := decodeEvent(encodeEvent(ev.uid, ev.id, ev.Event))
		if err != nil || again.Status != ev.Status || !bytes.Equal(again.Private, ev.Private) || again.QPN != ev.QPN {
			t.Fatalf("%+v came back as %+v, %v", ev, again, err)
		}
	})
}

// FuzzAnswers feeds the decoders of answers, which have a fixed size, and the
// addresses in them.
func FuzzAnswers(f *testing.F) {
	f.Add(make([]byte, queryAddrSize))
	f.Add(bytes.Repeat([]byte{0xff}, queryAddrSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(b, make([]byte, queryAddrSize)...)[:queryAddrSize]
		dev, local, remote := decodeQueryAddr(b)
		if dev.Index >= 0 && dev.Port == 0 {
			t.Fatalf("%v without a port", dev)
		}
		for _, addr := range []netip.AddrPort{local, remote} {
			if !addr.IsValid() {
				continue
			}
			if _, err := putSockaddr(make([]byte, storageSize), addr); err != nil {
				t.Fatalf("%v: %v", addr, err)
			}
		}
		decodeQPAttr(b)
	})
}

func encodeEvent(uid uint64, id uint32, ev Event) []byte {
	b := make([]byte, eventSize)
	native.PutUint64(b, uid)
	native.PutUint32(b[8:], id)
	native.PutUint32(b[12:], uint32(ev.Type))
	native.PutUint32(b[16:], uint32(ev.Status))
	native.PutUint32(b[20:], ev.QPN)
	copy(b[28:28+MaxPrivate], ev.Private)
	tail := b[28+privateSize:]
	tail[0] = uint8(len(ev.Private))
	tail[2], tail[3] = ev.ResponderResources, ev.InitiatorDepth
	return b
}
