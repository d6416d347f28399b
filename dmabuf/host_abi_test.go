package dmabuf

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKernelInterfacesOfTheHostExporters(t *testing.T) {
	compareABI(t, []string{"sys/ioctl.h", "linux/dma-buf.h", "linux/udmabuf.h", "linux/dma-heap.h", "linux/magic.h"}, slices.Concat(
		layout[dmabufSync]("struct dma_buf_sync", "DMA_BUF_IOCTL_SYNC", "flags"),
		layout[udmabufCreate]("struct udmabuf_create", "UDMABUF_CREATE", "memfd", "flags", "offset", "size"),
		layout[heapAllocation]("struct dma_heap_allocation_data", "DMA_HEAP_IOCTL_ALLOC", "len", "fd", "fd_flags", "heap_flags"),
		[]fact{
			{"DMA_BUF_IOCTL_SYNC", ioctlSync, "DMA_BUF_IOCTL_SYNC"},
			{"DMA_BUF_SYNC_READ", uint64(CPURead), "DMA_BUF_SYNC_READ"},
			{"DMA_BUF_SYNC_WRITE", uint64(CPUWrite), "DMA_BUF_SYNC_WRITE"},
			{"DMA_BUF_SYNC_END", syncEnd, "DMA_BUF_SYNC_END"},
			{"DMA_BUF_SET_NAME_B", ioctlSetName, "DMA_BUF_SET_NAME_B"},
			{"DMA_BUF_NAME_LEN", maxName, "DMA_BUF_NAME_LEN"},
			{"DMA_BUF_MAGIC", magicDMABuf, "DMA_BUF_MAGIC"},
			{"UDMABUF_CREATE", ioctlUdmabufCreate, "UDMABUF_CREATE"},
			{"UDMABUF_FLAGS_CLOEXEC", udmabufCloexec, "UDMABUF_FLAGS_CLOEXEC"},
			{"DMA_HEAP_IOCTL_ALLOC", ioctlHeapAlloc, "DMA_HEAP_IOCTL_ALLOC"},
		}))
}

func TestKernelInterfaceOfGraphicsCards(t *testing.T) {
	compareABI(t, []string{"sys/ioctl.h", "fcntl.h", "drm/drm.h", "drm/drm_mode.h"}, slices.Concat(
		layout[drmVersion]("struct drm_version", "DRM_IOCTL_VERSION",
			"version_major", "version_minor", "version_patchlevel", "", "name_len", "name", "date_len", "date", "desc_len", "desc"),
		layout[drmGEMClose]("struct drm_gem_close", "DRM_IOCTL_GEM_CLOSE", "handle", "pad"),
		layout[drmPrime]("struct drm_prime_handle", "DRM_IOCTL_PRIME_HANDLE_TO_FD", "handle", "flags", "fd"),
		layout[drmCreateDumb]("struct drm_mode_create_dumb", "DRM_IOCTL_MODE_CREATE_DUMB", "height", "width", "bpp", "flags", "handle", "pitch", "size"),
		layout[drmMapDumb]("struct drm_mode_map_dumb", "DRM_IOCTL_MODE_MAP_DUMB", "handle", "pad", "offset"),
		[]fact{
			{"DRM_IOCTL_VERSION", ioctlDRMVersion, "DRM_IOCTL_VERSION"},
			{"DRM_IOCTL_DROP_MASTER", ioctlDRMDropMaster, "DRM_IOCTL_DROP_MASTER"},
			{"DRM_IOCTL_GEM_CLOSE", ioctlDRMGEMClose, "DRM_IOCTL_GEM_CLOSE"},
			{"DRM_IOCTL_PRIME_HANDLE_TO_FD", ioctlDRMPrimeToFD, "DRM_IOCTL_PRIME_HANDLE_TO_FD"},
			{"DRM_IOCTL_MODE_CREATE_DUMB", ioctlDRMCreateDumb, "DRM_IOCTL_MODE_CREATE_DUMB"},
			{"DRM_IOCTL_MODE_MAP_DUMB", ioctlDRMMapDumb, "DRM_IOCTL_MODE_MAP_DUMB"},
			{"(DRM_RDWR | DRM_CLOEXEC)", unix.O_RDWR | unix.O_CLOEXEC, "DRM_RDWR"},
		}))
}

func TestKernelInterfaceOfVFIO(t *testing.T) {
	const dmabuf = "VFIO_DEVICE_FEATURE_DMA_BUF"
	// Ours is three structs of theirs, one after the other.
	const one = "struct { struct vfio_device_feature a; struct vfio_device_feature_dma_buf b; struct vfio_region_dma_range c; }"
	compareABI(t, []string{"sys/ioctl.h", "linux/ioctl.h", "linux/vfio.h"}, slices.Concat(
		layout[vfioGroupStatus]("struct vfio_group_status", "VFIO_GROUP_GET_STATUS", "argsz", "flags"),
		layout[vfioRegionInfo]("struct vfio_region_info", "VFIO_DEVICE_GET_REGION_INFO", "argsz", "flags", "index", "cap_offset", "size", "offset"),
		// Newer headers have more after what 6.6 had; argsz says how much is given.
		layout[vfioBindIOMMUFD]("struct vfio_device_bind_iommufd", "VFIO_DEVICE_BIND_IOMMUFD", "argsz", "flags", "iommufd", "out_devid")[1:],
		layout[vfioDMABuf](one, dmabuf, "a.argsz", "a.flags", "b.region_index", "b.open_flags", "b.flags", "b.nr_ranges", "c.offset", "c.length"),
		[]fact{
			{"VFIO_SET_IOMMU", ioctlVFIOSetIOMMU, "VFIO_SET_IOMMU"},
			{"VFIO_GROUP_GET_STATUS", ioctlVFIOGroupStatus, "VFIO_GROUP_GET_STATUS"},
			{"VFIO_GROUP_SET_CONTAINER", ioctlVFIOSetContainer, "VFIO_GROUP_SET_CONTAINER"},
			{"VFIO_GROUP_GET_DEVICE_FD", ioctlVFIODeviceFD, "VFIO_GROUP_GET_DEVICE_FD"},
			{"VFIO_DEVICE_GET_REGION_INFO", ioctlVFIORegionInfo, "VFIO_DEVICE_GET_REGION_INFO"},
			{"VFIO_DEVICE_BIND_IOMMUFD", ioctlVFIOBindIOMMUFD, "VFIO_DEVICE_BIND_IOMMUFD"},
			{"VFIO_DEVICE_FEATURE", ioctlVFIOFeature, "VFIO_DEVICE_FEATURE"},
			{dmabuf, vfioFeatureDMABuf, dmabuf},
			{"VFIO_DEVICE_FEATURE_GET", vfioFeatureGet, "VFIO_DEVICE_FEATURE_GET"},
			{"VFIO_DEVICE_FEATURE_PROBE", vfioFeatureProbe, "VFIO_DEVICE_FEATURE_PROBE"},
			{"VFIO_GROUP_FLAGS_VIABLE", vfioGroupViable, "VFIO_GROUP_FLAGS_VIABLE"},
			{"VFIO_REGION_INFO_FLAG_MMAP", vfioRegionMmap, "VFIO_REGION_INFO_FLAG_MMAP"},
			{"VFIO_TYPE1v2_IOMMU", vfioType1v2, "VFIO_TYPE1v2_IOMMU"},
			{"VFIO_NOIOMMU_IOMMU", vfioNoIOMMU, "VFIO_NOIOMMU_IOMMU"},
			{"VFIO_PCI_CONFIG_REGION_INDEX", vfioConfigRegion, "VFIO_DEVICE_GET_REGION_INFO"},
		}))
}
