#include "functions.h"

enum {
	NOT_READY = 600,       /* CUDA_ERROR_NOT_READY */
	STREAM_ALONE = 1,      /* CU_STREAM_NON_BLOCKING: apart from stream 0 */
	EVENT_NO_TIMING = 2,   /* CU_EVENT_DISABLE_TIMING */
	HOST_PORTABLE = 1,     /* CU_MEMHOSTALLOC_PORTABLE */
	REGISTER_PORTABLE = 1, /* CU_MEMHOSTREGISTER_PORTABLE */
};

int cu_can_access(int dev, int peer, int *can) { return cu.cuDeviceCanAccessPeer(can, dev, peer); }
int cu_peer_attribute(int from, int to, int attribute, int *v) { return cu.cuDeviceGetP2PAttribute(v, attribute, from, to); }
int cu_peer_enable(cu_opaque ctx, cu_opaque peer) { WITHIN(ctx, cu.cuCtxEnablePeerAccess(peer, 0)); }
int cu_peer_disable(cu_opaque ctx, cu_opaque peer) { WITHIN(ctx, cu.cuCtxDisablePeerAccess(peer)); }

int cu_stream_create(cu_opaque ctx, cu_opaque *stream) { WITHIN(ctx, cu.cuStreamCreate(stream, STREAM_ALONE)); }
int cu_stream_destroy(cu_opaque ctx, cu_opaque stream) { WITHIN(ctx, cu.cuStreamDestroy_v2(stream)); }
int cu_stream_wait(cu_opaque ctx, cu_opaque stream, cu_opaque event) { WITHIN(ctx, cu.cuStreamWaitEvent(stream, event, 0)); }

static int query(cu_opaque stream, int times)
{
	int rc;

	do
		rc = cu.cuStreamQuery(stream);
	while (rc == NOT_READY && --times > 0);
	return rc;
}

int cu_stream_query(cu_opaque ctx, cu_opaque stream, int times, int *done)
{
	*done = 0;
	WITHIN(ctx, ({
		int rc = query(stream, times);
		*done = !rc;
		rc == NOT_READY ? 0 : rc;
	}));
}

int cu_event_create(cu_opaque ctx, cu_opaque *event) { WITHIN(ctx, cu.cuEventCreate(event, EVENT_NO_TIMING)); }
int cu_event_destroy(cu_opaque ctx, cu_opaque event) { WITHIN(ctx, cu.cuEventDestroy_v2(event)); }
int cu_event_record(cu_opaque ctx, cu_opaque event, cu_opaque stream) { WITHIN(ctx, cu.cuEventRecord(event, stream)); }

int cu_fill(cu_opaque ctx, cu_address p, unsigned char v, size_t size, cu_opaque stream)
{
	WITHIN(ctx, cu.cuMemsetD8Async(p, v, size, stream));
}

int cu_to_peer(cu_opaque ctx, cu_address to, cu_opaque to_ctx, cu_address from, cu_opaque from_ctx, size_t size, cu_opaque stream)
{
	WITHIN(ctx, cu.cuMemcpyPeerAsync(to, to_ctx, from, from_ctx, size, stream));
}

int cu_to_host_async(cu_opaque ctx, void *to, cu_address from, size_t size, cu_opaque stream)
{
	WITHIN(ctx, cu.cuMemcpyDtoHAsync_v2(to, from, size, stream));
}

int cu_to_device_async(cu_opaque ctx, cu_address to, const void *from, size_t size, cu_opaque stream)
{
	WITHIN(ctx, cu.cuMemcpyHtoDAsync_v2(to, from, size, stream));
}

int cu_pinned(cu_opaque ctx, size_t size, void **p)
{
	*p = NULL;
	WITHIN(ctx, cu.cuMemHostAlloc(p, size, HOST_PORTABLE));
}

int cu_unpinned(cu_opaque ctx, void *p) { WITHIN(ctx, cu.cuMemFreeHost(p)); }
int cu_pin(cu_opaque ctx, void *p, size_t size) { WITHIN(ctx, cu.cuMemHostRegister_v2(p, size, REGISTER_PORTABLE)); }
int cu_unpin(cu_opaque ctx, void *p) { WITHIN(ctx, cu.cuMemHostUnregister(p)); }
