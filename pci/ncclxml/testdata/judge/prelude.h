// Read before NCCL's own headers. Its alloc.h takes memory of GPUs too and is left
// out for these two, which take the host's.
#pragma once
#define NCCL_ALLOC_H_
#define NCCL_CUDAWRAP_H_
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "nccl.h"

template <typename T> ncclResult_t ncclCalloc(T **p, size_t n) {
	*p = (T *)calloc(n ? n : 1, sizeof(T));
	return *p ? ncclSuccess : ncclSystemError;
}

template <typename T> ncclResult_t ncclRealloc(T **p, size_t had, size_t n) {
	T *grown = (T *)realloc(*p, n * sizeof(T));
	if (grown == nullptr) return ncclSystemError;
	if (n > had) memset((void *)(grown + had), 0, (n - had) * sizeof(T));
	*p = grown;
	return ncclSuccess;
}
