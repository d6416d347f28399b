// Package ebpfprobes shows what RDMA costs inside the running kernel: how long the
// registration of memory takes and in which phase, what failed and why. It follows any
// process, by programs (BPF) that are attached to functions of the kernel.
//
// Where functions are differs between kernels, so tables hold what may play each role,
// and [Probes] tells what would be attached here and why something cannot be. Programs
// count into histograms inside the kernel; single calls are sent on request.
//
// Nothing stays attached when a session is closed or its process ends. Programs attached
// by fentry hold the module that they are in: Detach lets it be unloaded.
//
// It needs CAP_BPF and CAP_PERFMON, and CAP_SYS_ADMIN (or the older kernels' all-in-one
// of the same name) for the types of modules; without that it falls back to kprobes.
package ebpfprobes

import _ "github.com/peerdirect/peerdirect/internal/needs/linux"
