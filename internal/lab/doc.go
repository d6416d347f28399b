// Package lab runs commands in virtual machines that have a stock kernel with
// real RDMA: the kernel's own rxe or siw on a virtual link that reaches nothing
// outside, and the kernel's own efa driver on devices that this process emulates.
// It is what the project's tests run in, and what a user without RDMA hardware
// runs peerdirect in.
//
// [Build] makes a root file system for a kernel out of Debian's packages, once;
// [Run] boots one or more guests on it, runs one command in each, and carries
// output and exit status out. Nothing of the machine it runs on is changed, and
// a guest sees of it three folders at most:
//
//	/peerdirect/bin   the folder of the running executable, read-only
//	/peerdirect/src   the working folder, read-only
//	/peerdirect/out   Options.Out, if set, writable
//
// The parts, in the order in which a run meets them:
//
//	mirror.go       where packages come from
//	kernels.go      what can be built
//	cache.go        what was built: locks, entries, removal
//	bootstrap.go    mmdebstrap
//	root.go         a kernel's root, and recipe/modules.sh for the drivers
//	layer.go        programs to lay over a root
//	initramfs.go    the archive that finds the root
//	qemu.go         one guest as a process
//	switch.go       the link between guests
//	efa.go          EFA devices in this process
//	accelerator.go  accelerators, whose memory is files of this process
//	module.go       their driver, built from recipe/accel
//	pcie.go         the switches and NUMA nodes that several devices have
//	proto.go        what host and guest say to each other
//	options.go      what a run can be told
//	run.go          the host's side of a run
//	guest*.go       the guest's side: process 1
package lab
