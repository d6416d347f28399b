/* What functions.h and copy.c take for granted, beside a toolkit's cuda.h: it
 * compiles where numbers and prototypes are the same. TestHeader. */
#include <cuda.h>
_Static_assert(CU_STREAM_NON_BLOCKING == 1 && CU_EVENT_DISABLE_TIMING == 2, "");
_Static_assert(CU_MEMHOSTALLOC_PORTABLE == 1 && CU_MEMHOSTREGISTER_PORTABLE == 1, "");
_Static_assert(CUDA_ERROR_NOT_READY == 600 && CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED == 704 && CUDA_ERROR_TOO_MANY_PEERS == 711 && CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED == 712, "");
_Static_assert(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK == 1 && CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED == 3 && CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT == 40, "");
_Static_assert(sizeof(CUdeviceptr) == 8 && sizeof(CUstream) == 8 && sizeof(CUevent) == 8 && sizeof(CUcontext) == 8 && sizeof(CUdevice) == 4, "");
CUresult (*const check_a)(int *, CUdevice, CUdevice) = cuDeviceCanAccessPeer;
CUresult (*const check_b)(int *, CUdevice_P2PAttribute, CUdevice, CUdevice) = cuDeviceGetP2PAttribute;
CUresult (*const check_c)(CUcontext, unsigned int) = cuCtxEnablePeerAccess;
CUresult (*const check_d)(CUcontext) = cuCtxDisablePeerAccess;
CUresult (*const check_e)(CUstream *, unsigned int) = cuStreamCreate;
CUresult (*const check_f)(CUstream) = cuStreamDestroy;
CUresult (*const check_g)(CUstream) = cuStreamQuery;
CUresult (*const check_h)(CUstream, CUevent, unsigned int) = cuStreamWaitEvent;
CUresult (*const check_i)(CUevent *, unsigned int) = cuEventCreate;
CUresult (*const check_j)(CUevent) = cuEventDestroy;
CUresult (*const check_k)(CUevent, CUstream) = cuEventRecord;
CUresult (*const check_l)(CUdeviceptr, unsigned char, size_t, CUstream) = cuMemsetD8Async;
CUresult (*const check_m)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream) = cuMemcpyPeerAsync;
CUresult (*const check_n)(void *, CUdeviceptr, size_t, CUstream) = cuMemcpyDtoHAsync;
CUresult (*const check_o)(CUdeviceptr, const void *, size_t, CUstream) = cuMemcpyHtoDAsync;
CUresult (*const check_p)(void **, size_t, unsigned int) = cuMemHostAlloc;
CUresult (*const check_q)(void *, size_t, unsigned int) = cuMemHostRegister;
CUresult (*const check_r)(void *) = cuMemHostUnregister;
