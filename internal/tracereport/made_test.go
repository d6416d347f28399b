package tracereport

import (
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// row makes a row of calls that each spent so long in each phase.
func row(pid int, command, device string, o ebpfprobes.Operation, k ebpfprobes.Kind, size uint64, calls int, spent map[ebpfprobes.Phase]time.Duration) ebpfprobes.RegistrationRow {
	r := ebpfprobes.RegistrationRow{
		RegistrationKey: ebpfprobes.RegistrationKey{PID: pid, Device: device, Operation: o, Kind: k, Size: size},
		Command:         command, Bytes: uint64(calls) * size,
	}
	for i := range calls {
		whole := time.Duration(0)
		for p := range ebpfprobes.Phases {
			if d := spent[p]; d > 0 {
				d += d * time.Duration(i%8) / 4
				one := histogramOfAll(d)
				r.Phases[p].Add(&one)
				whole += d
			}
		}
		one := histogramOfAll(whole)
		r.Whole.Add(&one)
	}
	return r
}

// made is a made-up run of 10 s: a trainer, one that fails, and a name that tries to
// write to the terminal.
func made() *Registrations {
	failing := row(512, "vllm worker", "mlx5_0", ebpfprobes.Register, ebpfprobes.DMABuf, 2<<20, 14,
		map[ebpfprobes.Phase]time.Duration{ebpfprobes.Uverbs: 2000, ebpfprobes.Driver: 5000, ebpfprobes.Attach: 30000, ebpfprobes.BufferMap: 90000})
	failing.Failed = 12
	return &Registrations{
		Tracing: Tracing{
			At: noon.Add(10 * time.Second), Traced: 10 * time.Second, Attached: true, Budget: 0.01, LastShare: 0.0007,
			Probes: []ebpfprobes.Probe{
				{Purpose: "registrations", Role: "registering", Function: "ib_uverbs_reg_mr", Module: "ib_uverbs", By: ebpfprobes.ByFentry, Usable: ebpfprobes.Yes, Needed: true},
				{Purpose: "registrations", Role: "registering", Function: "ib_uverbs_handler_UVERBS_METHOD_REG_MR", Usable: ebpfprobes.No, Why: "this kernel has no such function", Needed: true},
				{Purpose: "registrations", Role: "pinning", Function: "pin_user_pages_fast", By: ebpfprobes.ByKprobe, Usable: ebpfprobes.Yes},
				{Purpose: "registrations", Role: "command of the device", Function: "efa_com_register_mr", Usable: ebpfprobes.No, Why: "module efa is not loaded"},
				{Purpose: "registrations", Role: "mapping", Function: "dma_map_sgtable", Usable: ebpfprobes.No, Why: "the compiler inlined it"},
			},
			Overhead: &ebpfprobes.Overhead{Began: noon, Over: time.Second, CPUs: 2, Probes: []ebpfprobes.ProbeCost{
				{Probe: ebpfprobes.Probe{Role: "pinning", Function: "pin_user_pages_fast"}, Hits: 4096, Ran: 700 * time.Microsecond, Way: 600 * time.Microsecond},
			}},
		},
		Rows: []ebpfprobes.RegistrationRow{
			row(0, "pytest", "rxe0", ebpfprobes.Register, ebpfprobes.Host, 4096, 8,
				map[ebpfprobes.Phase]time.Duration{ebpfprobes.Driver: 4000, ebpfprobes.Pin: 1000}),
			row(41, "trainer", "mlx5_0", ebpfprobes.Register, ebpfprobes.Host, 4096, 100,
				map[ebpfprobes.Phase]time.Duration{ebpfprobes.Uverbs: 900, ebpfprobes.Driver: 2500, ebpfprobes.Pin: 1200, ebpfprobes.Command: 11000}),
			row(41, "trainer", "mlx5_0", ebpfprobes.Register, ebpfprobes.Host, 1<<20, 100,
				map[ebpfprobes.Phase]time.Duration{ebpfprobes.Uverbs: 900, ebpfprobes.Driver: 22500, ebpfprobes.Pin: 92000, ebpfprobes.Map: 41000, ebpfprobes.Command: 13000}),
			row(41, "trainer", "mlx5_0", ebpfprobes.Deregister, ebpfprobes.Host, 1<<20, 99,
				map[ebpfprobes.Phase]time.Duration{ebpfprobes.Uverbs: 700, ebpfprobes.Driver: 30000}),
			failing,
			row(777, "a\x1b[2J\nb\"\xff", "", ebpfprobes.Register, ebpfprobes.KindUnknown, 0, 1,
				map[ebpfprobes.Phase]time.Duration{ebpfprobes.Uverbs: 600}),
		},
		Failures: []ebpfprobes.RegistrationFailure{
			{PID: 512, Command: "vllm worker", Device: "mlx5_0", Operation: ebpfprobes.Register, Kind: ebpfprobes.DMABuf,
				Err: syscall.ENOMEM, Cause: syscall.EREMOTEIO, CausePhase: ebpfprobes.BufferMap, Count: 12},
			{PID: 777, Command: "a\x1b[2J\nb\"\xff", Operation: ebpfprobes.Register,
				Err: syscall.ENOMEM, CausePhase: ebpfprobes.Uverbs, Count: 1},
		},
	}
}
