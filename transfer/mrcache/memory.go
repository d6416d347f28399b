package mrcache

import "fmt"

// Space is where a range's addresses count.
type Space uint8

const (
	// Host: addresses of this process. ID is the caller's number for the
	// allocation, which a later one at the same address does not have; 0 is
	// memory without a number.
	Host Space = iota + 1
	// CUDA: device addresses; ID is the buffer ID (CU_POINTER_ATTRIBUTE_BUFFER_ID),
	// 0 where [Options].Identify finds it.
	CUDA
	// DMABuf: offsets in a dma-buf; ID is its inode.
	DMABuf
	// MemFD: offsets in a memfd; ID is its inode.
	MemFD

	spaces
)

func (s Space) String() string {
	switch s {
	case Host:
		return "host"
	case CUDA:
		return "cuda"
	case DMABuf:
		return "dmabuf"
	case MemFD:
		return "memfd"
	}
	return fmt.Sprintf("space(%d)", uint8(s))
}

// addressed tells that one address belongs to one allocation at a time.
func (s Space) addressed() bool { return s == Host || s == CUDA }

// Allocation names one allocation, and no later one.
type Allocation struct {
	Space Space
	ID    uint64
}

// Identity makes an allocation of what package dmabuf calls one: kinds "dmabuf",
// "cuda" and "memfd".
func Identity(kind string, id uint64) (Allocation, error) {
	for s := CUDA; s < spaces; s++ {
		if s.String() == kind {
			return Allocation{Space: s, ID: id}, nil
		}
	}
	return Allocation{}, fmt.Errorf("identity of kind %q: %w", kind, ErrInvalid)
}

func (a Allocation) String() string { return fmt.Sprintf("%v:%d", a.Space, a.ID) }

// Range is bytes of an allocation.
type Range struct {
	Alloc  Allocation
	Addr   uint64 // in the allocation's space
	Length uint64 // in bytes

	// Where the allocation begins and its size, if they are known: it is then
	// registered as a whole. A caller names a pool of host memory so.
	Base, Size uint64
}

// End is the address after the last byte.
func (r Range) End() uint64 { return r.Addr + r.Length }

func (r Range) String() string {
	return fmt.Sprintf("%v %#x+%d", r.Alloc, r.Addr, r.Length)
}

func (r Range) check() error {
	switch {
	case r.Alloc.Space == 0 || r.Alloc.Space >= spaces:
		return fmt.Errorf("no space %d: %w", r.Alloc.Space, ErrInvalid)
	case r.Alloc.Space != Host && r.Alloc.ID == 0:
		return fmt.Errorf("memory of space %v needs the number of its allocation: %w", r.Alloc.Space, ErrInvalid)
	case r.Length == 0:
		return fmt.Errorf("a range of no bytes: %w", ErrInvalid)
	case r.End() < r.Addr:
		return fmt.Errorf("the range ends beyond the last address: %w", ErrInvalid)
	case r.Size != 0 && (r.Base+r.Size < r.Base || r.Addr < r.Base || r.End() > r.Base+r.Size):
		return fmt.Errorf("the range is not inside its allocation, %#x+%d: %w", r.Base, r.Size, ErrInvalid)
	}
	return nil
}

// Access is what a registration allows: the bits of enum ibv_access_flags, as
// verbs.Access and efa.Access have them.
type Access uint32

// rights are the bits of which a registration may have more than a request:
// LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, MW_BIND, FLUSH_GLOBAL,
// FLUSH_PERSISTENT. The others say how memory is registered and must be equal: a
// request that does not ask for relaxed ordering must not get it.
const rights Access = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<8 | 1<<9

// serves tells that a registration with access a is good for a request of b.
func (a Access) serves(b Access) bool { return b&^a == 0 && (a^b)&^rights == 0 }

// Registrar registers memory with one NIC. It is called by several goroutines
// at once, [Options].Concurrency of them at most; so is what it gives.
type Registrar interface {
	// Register registers all bytes of the range. An error passes through to
	// who asked, as it is; for ENOMEM, EMFILE and ENFILE the cache first gives
	// back what is idle, and asks again once.
	Register(r Range, access Access) (Registration, error)
}

// Registration is a registered range, with whatever keys its NIC wants.
type Registration interface {
	// Close deregisters. The cache calls it when no transfer refers to the
	// range any more, again after it failed, and never after it succeeded.
	Close() error
}

// RegistrarFunc is a function as a Registrar.
type RegistrarFunc func(Range, Access) (Registration, error)

// Register calls the function.
func (f RegistrarFunc) Register(r Range, access Access) (Registration, error) { return f(r, access) }
