package dmabuf

import (
	"path/filepath"
	"slices"
	"testing"
)

// Memory ends with its dma-buf and mapping, so tests alone free by handle.
const ioctlAccelFree = 0x400850a3 // PEERDIRECT_ACCEL_FREE

func TestInterfaceOfTheLabsAccelerator(t *testing.T) {
	header, err := filepath.Abs("../internal/lab/recipe/accel/peerdirect_accel.h")
	if err != nil {
		t.Fatal(err)
	}
	compareABI(t, []string{header}, slices.Concat(
		layout[accelInfo]("struct peerdirect_accel_info", "PEERDIRECT_ACCEL_INFO", "abi", "flags", "size", "free", "bus", "pci"),
		layout[accelAlloc]("struct peerdirect_accel_alloc", "PEERDIRECT_ACCEL_ALLOC", "size", "offset", "handle", "flags"),
		layout[accelExport]("struct peerdirect_accel_export", "PEERDIRECT_ACCEL_EXPORT", "handle", "flags", "offset", "length", "fd", "pad"),
		[]fact{
			{"PEERDIRECT_ACCEL_ABI", accelABI, "PEERDIRECT_ACCEL_ABI"},
			{"PEERDIRECT_ACCEL_INFO", ioctlAccelInfo, "PEERDIRECT_ACCEL_INFO"},
			{"PEERDIRECT_ACCEL_ALLOC", ioctlAccelAlloc, "PEERDIRECT_ACCEL_ALLOC"},
			{"PEERDIRECT_ACCEL_EXPORT", ioctlAccelExport, "PEERDIRECT_ACCEL_EXPORT"},
			{"PEERDIRECT_ACCEL_FREE", ioctlAccelFree, "PEERDIRECT_ACCEL_FREE"},
		}))
}
