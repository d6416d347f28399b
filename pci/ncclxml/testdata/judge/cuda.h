// What NCCL's headers name of CUDA, so that the files of it that read and weigh a
// topology compile where there is no CUDA. No GPU is behind any of it.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CUDA_VERSION 10010 // the oldest: fewest names are needed
#define CUDART_VERSION CUDA_VERSION

typedef int CUresult, CUdevice, CUmemAllocationHandleType, cudaError_t, cudaStreamCaptureMode;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUpool_st *cudaMemPool_t;
typedef void (*cudaHostFn_t)(void *);
struct half {};
struct int4 { int x, y, z, w; };
struct ulong2 { unsigned long x, y; };
struct cudaIpcMemHandle_t { char reserved[64]; };
struct cudaDeviceProp { int major, minor; };

enum { cudaSuccess, cudaErrorNotReady = 600, cudaStreamCaptureModeRelaxed = 2 };

cudaError_t cudaGetLastError();
const char *cudaGetErrorString(cudaError_t);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *, int);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
enum { cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor };
cudaError_t cudaGetDevice(int *);
cudaError_t cudaDeviceGetAttribute(int *, int, int);
cudaError_t cudaDeviceGetPCIBusId(char *, int, int);
