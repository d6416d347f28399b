package dmabuf

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"
)

func TestKernelInterfaceOfAMDKFD(t *testing.T) {
	const guard = "AMDKFD_IOC_EXPORT_DMABUF"
	number := func(c string, ours uint64) fact { return fact{c, ours, guard} }
	compareABI(t, []string{"sys/ioctl.h", "drm/drm.h linux/kfd_ioctl.h"}, slices.Concat(
		layout[kfdVersion]("struct kfd_ioctl_get_version_args", guard, "major_version", "minor_version"),
		layout[kfdAcquireVM]("struct kfd_ioctl_acquire_vm_args", guard, "drm_fd", "gpu_id"),
		layout[kfdAlloc]("struct kfd_ioctl_alloc_memory_of_gpu_args", guard, "va_addr", "size", "handle", "mmap_offset", "gpu_id", "flags"),
		layout[kfdFree]("struct kfd_ioctl_free_memory_of_gpu_args", guard, "handle"),
		layout[kfdExport]("struct kfd_ioctl_export_dmabuf_args", guard, "handle", "flags", "dmabuf_fd"),
		[]fact{
			number("AMDKFD_IOC_GET_VERSION", ioctlKFDGetVersion),
			number("AMDKFD_IOC_ACQUIRE_VM", ioctlKFDAcquireVM),
			number("AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", ioctlKFDAllocMemory),
			number("AMDKFD_IOC_FREE_MEMORY_OF_GPU", ioctlKFDFreeMemory),
			number("AMDKFD_IOC_EXPORT_DMABUF", ioctlKFDExportDMABuf),
			number("KFD_IOC_ALLOC_MEM_FLAGS_VRAM", kfdVRAM),
			number("KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE", kfdNoSubstitute),
			number("KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC", kfdPublic),
			number("KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE", kfdExecutable),
			number("(unsigned)KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE", kfdWritable),
			number("KFD_IOCTL_MAJOR_VERSION", 1),
		},
	))
}

// habanaFacts are those that both headers of Habana's driver have.
func habanaFacts(guard string) []fact {
	var args habanaArgs
	word := func(i int) uint64 { return uint64(unsafe.Offsetof(args.word)) + uint64(i)*8 }
	at := func(field string, ours uint64) fact {
		return fact{fmt.Sprintf("offsetof(struct hl_mem_in, %s)", field), ours, guard}
	}
	return []fact{
		{"sizeof(union hl_mem_args)", uint64(unsafe.Sizeof(args)), guard},
		at("alloc.mem_size", word(0)), at("alloc.page_size", word(1)),
		at("free.handle", word(0)),
		at("map_device.hint_addr", word(0)), at("map_device.handle", word(1)),
		at("unmap.device_virt_addr", word(0)),
		at("export_dmabuf_fd.mem_size", word(1)),
		at("op", uint64(unsafe.Offsetof(args.op))), at("flags", uint64(unsafe.Offsetof(args.flags))),
		at("ctx_id", uint64(unsafe.Offsetof(args.ctx))), at("num_of_elements", uint64(unsafe.Offsetof(args.elements))),
		{"offsetof(struct hl_mem_out, device_virt_addr)", word(0), guard},
		{"offsetof(struct hl_mem_out, handle)", word(0), guard},
		{"offsetof(struct hl_mem_out, fd)", word(0), guard},
		{"sizeof(((struct hl_mem_out *)0)->fd)", 4, guard},
		{"HL_MEM_OP_ALLOC", habanaAlloc, guard}, {"HL_MEM_OP_FREE", habanaFree, guard},
		{"HL_MEM_OP_MAP", habanaMap, guard}, {"HL_MEM_OP_UNMAP", habanaUnmap, guard},
		{"HL_MEM_OP_EXPORT_DMABUF_FD", habanaExport, guard},
	}
}

// TestKernelInterfaceOfHabana compares with either header: they have the same
// names, and what an export takes is in other words of the argument.
func TestKernelInterfaceOfHabana(t *testing.T) {
	t.Run("accel", func(t *testing.T) {
		const guard = "DRM_IOCTL_HL_MEMORY"
		compareABI(t, []string{"sys/ioctl.h", "drm/drm.h drm/habanalabs_accel.h"}, append(habanaFacts(guard),
			fact{"DRM_IOCTL_HL_MEMORY", ioctlHabanaDRM, guard},
			fact{"offsetof(struct hl_mem_in, export_dmabuf_fd.addr)", 0, guard},
			fact{"offsetof(struct hl_mem_in, export_dmabuf_fd.offset)", 16, guard}))
	})
	t.Run("class", func(t *testing.T) {
		// Only headers up to 6.1 have it: those of a lab's root need not.
		t.Setenv("HOME", t.TempDir())
		t.Setenv("XDG_CACHE_HOME", "")
		const guard = "HL_MEM_OP_EXPORT_DMABUF_FD"
		compareABI(t, []string{"sys/ioctl.h", "misc/habanalabs.h"}, append(habanaFacts(guard),
			fact{"HL_IOCTL_MEMORY", ioctlHabanaClass, guard},
			fact{"offsetof(struct hl_mem_in, export_dmabuf_fd.handle)", 0, guard}))
	})
}

// TestNeuronNumbers computes the numbers as the driver's header does, which no
// distribution has: _IOR of 'N' with the size of a pointer.
func TestNeuronNumbers(t *testing.T) {
	ior := func(nr uint64) uint64 { return 2<<30 | uint64(unsafe.Sizeof(uintptr(0)))<<16 | 'N'<<8 | nr }
	for _, c := range []struct{ nr, ours uint64 }{
		{22, ioctlNeuronMemFree}, {29, ioctlNeuronMemInfo}, {102, ioctlNeuronMemAlloc}, {107, ioctlNeuronDMABuf},
	} {
		if ior(c.nr) != c.ours {
			t.Errorf("call %d: %#x, ours is %#x", c.nr, ior(c.nr), c.ours)
		}
	}
	for name, c := range map[string]struct{ size, ours uintptr }{
		"mem_alloc_v2": {40, unsafe.Sizeof(neuronMemAlloc{})}, "mem_get_extended_info": {48, unsafe.Sizeof(neuronMemInfo{})},
		"mem_free": {8, unsafe.Sizeof(neuronMemFree{})}, "dmabuf_fd": {24, unsafe.Sizeof(neuronDMABuf{})},
	} {
		if c.size != c.ours {
			t.Errorf("struct neuron_ioctl_%s has %d bytes, ours %d", name, c.size, c.ours)
		}
	}
}
