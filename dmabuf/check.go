package dmabuf

import (
	"cmp"
	"os"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/errname"
	"github.com/peerdirect/peerdirect/internal/umem"
	"github.com/peerdirect/peerdirect/internal/uname"
)

// CheckOptions is a registration that is to be judged before it is tried. The
// numbers of the call are as ibv_reg_dmabuf_mr takes them; of the rest, what is
// not given is not known, and the report says what that leaves open.
type CheckOptions struct {
	Offset, Length, IOVA uint64 // bytes
	Access               uint64 // enum ibv_access_flags
	DMAHandle            bool   // by ibv_reg_mr_ex with a DMA handle

	// FD is a descriptor of this process. What it is, its size and its exporter
	// are read from it; BufferSize and Exporter are for a buffer elsewhere.
	FD         *int
	BufferSize uint64
	Exporter   string

	// Device is an RDMA device of this machine. Its driver is read from sysfs;
	// Driver is for one elsewhere: mlx5, efa, irdma, rxe.
	Device string
	Driver string
	// MaxMRSize and PageSizes are the device's max_mr_size and page_size_cap,
	// DeviceAccess what it can do of RemoteRead and RemoteWrite, as access bits.
	MaxMRSize, PageSizes, DeviceAccess uint64

	Kernel   string // release; "" is this machine's
	PageSize uint64 // of that kernel, bytes; 0 is this machine's where Kernel is, else 4096

	// Address is the pointer that is registered and Base the start of its
	// allocation, as the exporter's library tells them (cuMemGetAddressRange).
	// With both, the offset is compared with their distance. BaseOffset is
	// where the allocation begins in the dma-buf.
	Address, Base, BaseOffset uint64
}

// Verdict is what can be said of a rule: "passed", "failed" or "unknown".
type Verdict = umem.Verdict

const (
	Passed  Verdict = umem.Passed
	Failed  Verdict = umem.Failed
	Unknown Verdict = umem.Unknown
)

// Rule is one thing that the kernel demands, with the verdict on it.
type Rule struct {
	Name    string  `json:"name"`   // short and stable: "page offset"
	Demand  string  `json:"demand"` // what must hold
	Where   string  `json:"where"`  // the kernel's function that checks it
	Verdict Verdict `json:"verdict"`
	// Errno is what the kernel answers if the rule fails, ErrnoName its name.
	Errno     syscall.Errno `json:"errno"`
	ErrnoName string        `json:"errno_name"`
	// Numbers are what was compared: both sides of a failure.
	Numbers []Number `json:"numbers"`
	// Cause is what is wrong, or of an unknown what is not known.
	Cause  string `json:"cause,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Number is one side of a comparison.
type Number struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Warning is something that the kernel lets pass and that goes wrong later.
type Warning struct {
	Name   string `json:"name"`
	Cause  string `json:"cause"`
	Remedy string `json:"remedy"`
}

// Report is the judgement.
type Report struct {
	// Rules are in the kernel's order. It answers with the first that fails;
	// the rest shows what else would have to change.
	Rules    []Rule    `json:"rules"`
	Warnings []Warning `json:"warnings"`

	options CheckOptions
	buffer  umem.Buffer
}

// Failing is the rule that the kernel would answer with, nil if none fails.
func (r *Report) Failing() *Rule {
	for i := range r.Rules {
		if r.Rules[i].Verdict == Failed {
			return &r.Rules[i]
		}
	}
	return nil
}

// Err is an *Error with the errno that the kernel would give, nil where no rule
// fails that could be checked.
func (r *Report) Err() error {
	f := r.Failing()
	if f == nil {
		return nil
	}
	e := &Error{Op: "ibv_reg_dmabuf_mr", Exporter: r.buffer.Exporter, Err: f.Errno, Detail: f.Name + ": " + f.Cause}
	if f.Remedy != "" {
		e.Detail += "; " + f.Remedy
	}
	return e
}

// Check judges a registration by the kernel's own rules, in the kernel's order,
// and warns of what they let pass. It registers nothing and asks no device.
func Check(o CheckOptions) Report { return CheckAll([]CheckOptions{o})[0] }

// CheckAll judges several registrations, such as the pieces of one buffer, and
// warns too of what is wrong with them together.
func CheckAll(all []CheckOptions) []Report {
	reports := make([]Report, len(all))
	for i, o := range all {
		reports[i] = check(o)
	}
	warnTogether(reports)
	return reports
}

func check(o CheckOptions) Report {
	r := Report{options: o, Warnings: []Warning{}}
	request := umem.Request{
		Offset: o.Offset, Length: o.Length, IOVA: o.IOVA, Access: o.Access, DMAHandle: o.DMAHandle,
		Buffer: umem.Buffer{Size: o.BufferSize, Exporter: o.Exporter},
		Device: umem.Device{Driver: o.Driver, MaxMRSize: o.MaxMRSize, PageSizes: o.PageSizes, Access: o.DeviceAccess},
		Kernel: o.Kernel, PageSize: o.PageSize,
	}
	if o.FD != nil {
		request.Buffer = umem.ReadBuffer(*o.FD)
	} else if o.BufferSize != 0 || o.Exporter != "" {
		request.Buffer.State = umem.StateDMABuf
	}
	if o.Device != "" {
		driver, translated := umem.ReadDevice("/", o.Device)
		request.Device.Translated = translated
		if o.Driver == "" {
			request.Device.Driver = driver
		}
	}
	if o.Kernel == "" {
		request.Kernel = uname.Release()
		request.PageSize = cmp.Or(o.PageSize, uint64(os.Getpagesize()))
	}
	r.buffer = request.Buffer
	for _, u := range umem.Check(&request) {
		rule := Rule{
			Name: u.Name, Demand: u.Demand, Where: u.Where, Verdict: u.Verdict, Errno: u.Errno, ErrnoName: errname.Of(u.Errno),
			Numbers: make([]Number, len(u.Numbers)), Cause: u.Cause, Remedy: u.Remedy,
		}
		for i, n := range u.Numbers {
			rule.Numbers[i] = Number(n)
		}
		r.Rules = append(r.Rules, rule)
	}
	r.warn(&request)
	return r
}

// KernelLog are pieces of the kernel's messages that tell why a device may not
// reach another's memory.
func KernelLog() []string { return append([]string(nil), umem.KernelLog...) }

// Importers says of each driver of RDMA devices since which kernel it registers
// dma-bufs.
func Importers() []Importer {
	var out []Importer
	for _, i := range umem.Imports() {
		out = append(out, Importer(i))
	}
	return out
}

// Importer is a driver that registers dma-bufs, or that does not.
type Importer struct {
	Driver string `json:"driver"`
	Lacks  string `json:"lacks"` // newest kernel known to lack it, "" for none
	Has    string `json:"has"`   // oldest kernel known to have it, "" for none
	How    string `json:"how"`
}
