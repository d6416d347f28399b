package ebpfprobes

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
)

// point is one row of a purpose's table: a role, and the functions that may play it.
type point struct {
	role   string
	names  []string // each is taken where it exists
	suffix string   // in place of names: functions of drivers that end so
	first  string   // and whose first argument points to this struct
	least  int      // and that have this many arguments at least
	entry  string   // programs of the object, without _fentry or _kprobe; "" is none
	exit   string
	cookie uint64
	reads  bool   // the programs read arguments: no variant of a compiler will do
	needed bool   // one of names has to be there
	unless string // a role: attached only where that is not played at all its functions

	tracepoint string // in place of names: a tracepoint's module; its name is entry's
}

// Cookies, as bpf/registrations.bpf.c reads them.
const (
	returnsPointer = 0x100
	returnsLong    = 0x400
)

// noDriver is why there is no function of a driver, where no driver has it.
const noDriver = "no loaded driver has it"

func kindCookie(k Kind) uint64 { return uint64(k) << 12 }

const (
	wholeCall     = "whole call"
	deregistering = "deregistering"
)

// registrationPoints is the table of registrations: functions of Linux 6.1 to 7.3
// (BTF of Debian's 6.1.0-57, 6.12.117 and 7.3.4; the drivers' from their sources).
// The order is that of attaching: what begins a call comes last.
var registrationPoints = []point{
	// What kind of memory a region has: the functions that get it and give it back.
	// That of a dma-buf goes through the one for pages too, and the greater kind counts.
	{role: "kind of memory", names: []string{"ib_umem_odp_get", "ib_umem_odp_alloc_implicit", "ib_umem_odp_release"},
		entry: "kind_seen", cookie: kindCookie(OnDemand)},
	{role: "kind of memory", names: []string{"ib_umem_dmabuf_release"},
		entry: "kind_seen", cookie: kindCookie(DMABuf)},
	{role: "pinning", names: []string{"pin_user_pages_fast"},
		entry: "phase", exit: "phase_end", cookie: uint64(Pin)},
	{role: "mapping", names: []string{"dma_map_sgtable"},
		entry: "phase", exit: "phase_end", cookie: uint64(Map)},
	{role: "dma-buf: attaching", names: []string{"dma_buf_dynamic_attach"},
		entry: "buffer", exit: "phase_end", cookie: uint64(Attach) | returnsPointer, reads: true},
	{role: "dma-buf: pinning", names: []string{"dma_buf_pin"},
		entry: "phase", exit: "phase_end", cookie: uint64(BufferPin)},
	{role: "dma-buf: mapping", names: []string{"dma_buf_map_attachment"},
		entry: "phase", exit: "phase_end", cookie: uint64(BufferMap) | returnsPointer},
	{role: "dma-buf: waiting for its work", names: []string{"dma_resv_wait_timeout"},
		entry: "phase", exit: "phase_end", cookie: uint64(Fence) | returnsLong},
	{role: "command of the device", names: []string{
		"efa_com_register_mr", "efa_com_dereg_mr",
		"mlx5_core_create_mkey", "mlx5_core_destroy_mkey",
		"irdma_handle_cqp_op",
		"bnxt_qplib_rcfw_send_message",
		"erdma_post_cmd_wait",
	}, entry: "phase", exit: "phase_end", cookie: uint64(Command)},
	{role: "driver's operation", suffix: "_reg_user_mr", first: "ib_pd", least: 4,
		entry: "driver", exit: "driver_end", cookie: uint64(Driver) | returnsPointer, reads: true},
	{role: "driver's operation", suffix: "_reg_mr", first: "ib_pd", least: 4, // efa's and usnic's
		entry: "driver", exit: "driver_end", cookie: uint64(Driver) | returnsPointer, reads: true},
	{role: "driver's operation", suffix: "_reg_user_mr_dmabuf", first: "ib_pd", least: 4,
		entry: "driver", exit: "driver_end", cookie: uint64(Driver) | returnsPointer | kindCookie(DMABuf), reads: true},
	{role: deregistering, suffix: "_dereg_mr", first: "ib_mr", least: 1,
		entry: "ending", exit: "ending_end", reads: true, needed: true},
	{role: "registering", names: []string{
		"ib_uverbs_reg_mr",
		"ib_uverbs_handler_UVERBS_METHOD_REG_MR",
		"ib_uverbs_handler_UVERBS_METHOD_REG_DMABUF_MR",
	}, entry: "handler", exit: "handler_end", cookie: uint64(Register), needed: true, unless: wholeCall},
	{role: "registering by DEVX", names: []string{"ib_uverbs_handler_MLX5_IB_METHOD_DEVX_UMEM_REG"},
		entry: "handler", exit: "handler_end", cookie: uint64(Register) | kindCookie(DEVX)},
	{role: "registering again", names: []string{"ib_uverbs_rereg_mr"},
		entry: "handler", exit: "handler_end", cookie: uint64(Reregister), unless: wholeCall},
	{role: deregistering, names: []string{"ib_dereg_mr_user"},
		entry: "deregister", exit: "handler_end", cookie: uint64(Deregister), reads: true, needed: true, unless: deregistering},
	{role: wholeCall, names: []string{"ib_uverbs_write"},
		entry: "write_call", exit: "call_end", cookie: returnsLong, reads: true},
	{role: wholeCall, names: []string{"ib_uverbs_ioctl"},
		entry: "ioctl_call", exit: "call_end", cookie: returnsLong, reads: true},
}

// site is a point at one function of the running kernel.
type site struct {
	point
	function kernel.Function
	probe    Probe
}

// resolve finds where a table's points are in a kernel. Sites that cannot be used are
// there too, and say why.
func resolve(k *kernel.Kernel, purpose string, table []point, can capabilities) (sites []site) {
	noTypes := k.NoTypes()
	noRDMA := rdmaTypes(k)
	for _, p := range table {
		add := func(name string, f kernel.Function, state State, why string, err error) {
			s := site{point: p, function: f, probe: Probe{
				Purpose: purpose, Role: p.role, Function: name, Module: f.Module,
				Usable: state, Why: why, Err: err, Needed: p.needed, phase: p.entry == "phase",
			}}
			if err := p.unreadable(noTypes, noRDMA); state == Yes && err != nil {
				s.probe.Usable, s.probe.Why, s.probe.Err = No, err.Error(), err
			} else if state == Yes && p.tracepoint != "" {
				s.probe.By = ByTracepoint
			} else if state == Yes {
				by, err := can.way(f)
				if s.probe.By = by; err != nil {
					s.probe.Usable, s.probe.Why, s.probe.Err = No, err.Error(), err
				}
			}
			sites = append(sites, s)
		}
		if noTypes != nil && slices.Contains(k.Modules(), "ib_uverbs") {
			// Nothing can be loaded: it is not worth a walk through all symbols where it is.
			for _, name := range p.all() {
				if module := moduleOf(name); module != "" && !slices.Contains(k.Modules(), module) {
					add(name, kernel.Function{}, No, missing(k, module), nil)
				} else {
					add(name, kernel.Function{}, Yes, "", nil) // but for the types
				}
			}
			continue
		}
		if p.tracepoint != "" {
			f, err := k.Tracepoint(p.entry, p.tracepoint)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				add(p.entry, kernel.Function{}, No, missing(k, p.tracepoint), nil)
			default:
				add(p.entry, f, Yes, "", nil)
			}
			continue
		}
		if p.suffix != "" {
			found, err := k.Suffixed(p.suffix, p.first, p.least)
			for _, f := range found {
				add(f.Name, f, Yes, "", nil)
			}
			if err != nil {
				add("*"+p.suffix, kernel.Function{}, Unknown, err.Error(), err)
			} else if len(found) == 0 {
				add("*"+p.suffix, kernel.Function{}, No, noDriver, nil)
			}
			continue
		}
		for _, name := range p.names {
			module := moduleOf(name)
			found, err := k.Find(name, module, !p.reads)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				add(name, kernel.Function{}, No, missing(k, module), nil)
			case err != nil:
				add(name, kernel.Function{}, Unknown, err.Error(), err)
			}
			for _, f := range found {
				add(f.Name, f, Yes, "", nil)
			}
		}
	}
	return sites
}

// all are the names that a point may have.
func (p *point) all() []string {
	switch {
	case p.tracepoint != "":
		return []string{p.entry}
	case p.suffix != "":
		return []string{"*" + p.suffix}
	}
	return p.names
}

// moduleOf is the module that holds a function of the tables, if it is not the kernel
// or differs between kernels.
func moduleOf(function string) string {
	for prefix, module := range map[string]string{
		"ib_uverbs_handler_MLX5_": "mlx5_ib", "mlx5_core_": "mlx5_core", "efa_": "efa",
		"irdma_": "irdma", "bnxt_": "bnxt_re", "erdma_": "erdma",
		"rxe_": "rdma_rxe",
	} {
		if strings.HasPrefix(function, prefix) {
			return module
		}
	}
	return ""
}

// missing tells why a function may be absent.
func missing(k *kernel.Kernel, module string) string {
	switch {
	case module != "" && !slices.Contains(k.Modules(), module):
		return "module " + module + " is not loaded"
	case len(k.Modules()) == 0:
		return "module ib_core is not loaded: 'modprobe ib_uverbs', or the NIC's driver"
	case !slices.Contains(k.Modules(), "ib_uverbs"):
		return "module ib_uverbs is not loaded: 'modprobe ib_uverbs'"
	}
	return "this kernel has no such function, or the compiler inlined it"
}
