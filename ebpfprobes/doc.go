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
//
// # Sessions
//
// A session is begun by a function named after what it follows, [Registrations],
// [Completions], [Leaks], [Connections] or [Errors]; what it counted is read while it
// goes on. Its methods may be called from several goroutines, Events from one; what
// is read after Close fails. Times are of the
// monotonic clock, sizes bytes.
//
// # What it needs
//
// Linux with BTF for all of it, amd64 or arm64, no cgo and no compiler; the lab's tests
// run on 6.1, 6.12 and 7.3. Each Probe that cannot be attached says why; errors
// are *Error and of the class ErrPermission or ErrUnsupported.
package ebpfprobes

import _ "github.com/peerdirect/peerdirect/internal/needs/linux"
