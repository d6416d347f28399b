package provider

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// Offsets of libibverbs's public structures (infiniband/verbs.h of rdma-core 44 to 65),
// which have been the same since they came: programs inline their use.
const (
	contextDevice     = 0 // struct ibv_context
	contextPollCQ     = 96
	contextPostSend   = 208
	contextPostRecv   = 216
	deviceName        = 24 // struct ibv_device, 64 bytes
	objectContext     = 0  // struct ibv_cq_ex and ibv_qp_ex
	cqStartPollAMD64  = 144
	qpWRAtomicAMD64   = 184
	mutexMoreOnARM64  = 8 // sizeof(pthread_mutex_t): 48 there, 40 on x86-64
	wordsOfWRBuilders = 20
)

// BuilderNames are the functions of struct ibv_qp_ex from wr_atomic_cmp_swp on, a word
// each.
var BuilderNames = [wordsOfWRBuilders]Role{
	"wr_atomic_cmp_swp", "wr_atomic_fetch_add", "wr_bind_mw", "wr_local_inv", "wr_rdma_read",
	"wr_rdma_write", "wr_rdma_write_imm", "wr_send", "wr_send_imm", "wr_send_inv", "wr_send_tso",
	"wr_set_ud_addr", "wr_set_xrc_srqn", "wr_set_inline_data", "wr_set_inline_data_list",
	"wr_set_sge", "wr_set_sge_list", "wr_start", WRComplete, "wr_abort",
}

// Context is a device that a process has open.
type Context struct {
	Address uint64 // of struct ibv_context
	Device  string
	Library Mapping // the provider's code
	// Found are the functions that the process's pointers lead to, as offsets in the
	// library's file: of the context, and of extended queues as far as there are some.
	Found Operations
}

// How much of a process is looked through: its heaps, not its buffers.
const (
	mostOfOne = 128 << 20
	mostOfAll = 1 << 30
)

// Live finds the contexts that a process has open, and the functions that its pointers
// lead to. It reads the process's memory and does not stop it; pages that are not there
// are left out.
func (p *Process) Live() ([]Context, error) {
	code := p.Providers()
	if len(code) == 0 {
		return nil, fmt.Errorf("%w: process %d has no provider of RDMA devices loaded", ErrUnknown, p.PID)
	}
	mem, err := os.Open(p.path("mem"))
	if err != nil {
		return nil, fmt.Errorf("memory of process %d: %w", p.PID, err)
	}
	defer mem.Close()
	pages, err := os.Open(p.path("pagemap"))
	if err == nil {
		defer pages.Close()
	}
	s := scan{mem: mem, code: code}
	var heaps []Mapping
	for _, m := range p.Maps {
		if m.read && m.write && m.Inode == 0 && !strings.HasPrefix(m.Path, "[v") && m.End-m.Start <= mostOfOne {
			heaps = append(heaps, m)
		}
	}
	// Contexts first: queues are known by pointing to one.
	for _, look := range []func(uint64, []byte){s.contexts, s.queues} {
		left := uint64(mostOfAll)
		for _, m := range heaps {
			if m.End-m.Start > left {
				break
			}
			left -= m.End - m.Start
			readPresent(mem, pages, m, look)
		}
	}
	if len(s.found) == 0 {
		return nil, fmt.Errorf("%w: process %d has no RDMA device open, as far as its heaps tell", ErrUnknown, p.PID)
	}
	return s.found, nil
}

// readPresent gives the parts of a mapping that are in memory (pagemap of the kernel's
// admin guide: bit 63), as long as they are together.
func readPresent(mem io.ReaderAt, pagemap *os.File, m Mapping, look func(uint64, []byte)) {
	size := uint64(os.Getpagesize())
	n := (m.End - m.Start) / size
	present := make([]byte, 8*n)
	if pagemap == nil {
		for i := range present {
			present[i] = 0xff
		}
	} else if _, err := pagemap.ReadAt(present, int64(m.Start/size*8)); err != nil {
		return
	}
	for i := uint64(0); i < n; i++ {
		if present[8*i+7]&0x80 == 0 {
			continue
		}
		first := i
		for i < n && present[8*i+7]&0x80 != 0 {
			i++
		}
		piece := make([]byte, (i-first)*size)
		if _, err := mem.ReadAt(piece, int64(m.Start+first*size)); err == nil {
			look(m.Start+first*size, piece)
		}
	}
}

type scan struct {
	mem   io.ReaderAt
	code  []Mapping
	found []Context
}

// function gives the provider whose code an address is in, and where in its file.
func (s *scan) function(a uint64) (Mapping, uint64, bool) {
	for _, m := range s.code {
		if a >= m.Start && a < m.End {
			return m, a - m.Start + m.Offset, true
		}
	}
	return Mapping{}, 0, false
}

func word(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// contexts looks for struct ibv_context: four functions of one provider at their places,
// and a device with a name.
func (s *scan) contexts(at uint64, b []byte) {
	for i := 0; i+contextPostRecv+8 <= len(b); i += 8 {
		library, poll, ok := s.function(word(b, i+contextPollCQ))
		if !ok {
			continue
		}
		c := Context{Address: at + uint64(i), Library: library, Found: Operations{PollCQ: {poll}}}
		for offset, r := range map[int]Role{contextPostSend: PostSend, contextPostRecv: PostRecv} {
			l, f, in := s.function(word(b, i+offset))
			if ok = ok && in && l == library; ok {
				c.Found.Add(r, f)
			}
		}
		if !ok {
			continue
		}
		if c.Device, ok = s.name(word(b, i+contextDevice) + deviceName); ok {
			s.found = append(s.found, c)
		}
	}
}

// name reads a device's name, which is letters, digits and a few others.
func (s *scan) name(a uint64) (string, bool) {
	b := make([]byte, 64)
	if _, err := s.mem.ReadAt(b, int64(a)); err != nil {
		return "", false
	}
	n := bytes.IndexByte(b, 0)
	if n <= 0 || bytes.ContainsFunc(b[:n], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", false
	}
	return string(b[:n]), true
}

// DeviceName gives the name of the device of a process's struct ibv_context.
func DeviceName(pid int, context uint64) (string, error) {
	mem, err := os.Open((&Process{PID: pid, root: "/proc"}).path("mem"))
	if err != nil {
		return "", err
	}
	defer mem.Close()
	b := make([]byte, 8)
	if _, err := mem.ReadAt(b, int64(context+contextDevice)); err != nil {
		return "", fmt.Errorf("context of process %d: %w", pid, err)
	}
	s := scan{mem: mem}
	name, ok := s.name(word(b, 0) + deviceName)
	if !ok {
		return "", fmt.Errorf("context of process %d: %w", pid, ErrUnknown)
	}
	return name, nil
}

// queues looks for struct ibv_cq_ex and struct ibv_qp_ex: they point to a context that
// was found, and have the provider's functions at their places.
func (s *scan) queues(at uint64, b []byte) {
	cq, qp := cqStartPollAMD64, qpWRAtomicAMD64
	if runtime.GOARCH == "arm64" {
		cq, qp = cq+mutexMoreOnARM64, qp+mutexMoreOnARM64
	}
	for i := 0; i+8 <= len(b); i += 8 {
		c := slices.IndexFunc(s.found, func(c Context) bool { return c.Address == word(b, i+objectContext) })
		if c < 0 {
			continue
		}
		s.take(b, i+cq, s.found[c], []Role{StartPoll, NextPoll, EndPoll, ReadOpcode}, EndPoll)
		s.take(b, i+qp, s.found[c], BuilderNames[:], WRComplete)
	}
}

// take adds a run of functions to what a context's queues lead to, if the one that must
// be is there and none is elsewhere than in the provider's code or nowhere.
func (s *scan) take(b []byte, at int, c Context, roles []Role, must Role) {
	if at+8*len(roles) > len(b) {
		return
	}
	found := make(map[Role]uint64)
	for i, r := range roles {
		w := word(b, at+8*i)
		if w == 0 {
			continue
		}
		l, f, ok := s.function(w)
		if !ok || l != c.Library {
			return
		}
		found[r] = f
	}
	if _, ok := found[must]; !ok {
		return
	}
	for r, f := range found {
		c.Found.Add(r, f)
	}
}
