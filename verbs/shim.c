#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include "shim.h"

struct vb_table vb;
struct vb_newer_table vb_newer;
static void *vb_handle;

const char *vb_load(void *handle)
{
	static const struct {
		const char *name;
		size_t slot;
		int required;
	} table[] = {
#define X(fn) {#fn, offsetof(struct vb_table, fn), 1},
		VB_REQUIRED(X)
#undef X
#define X(fn) {#fn, offsetof(struct vb_table, fn), 0},
		VB_OPTIONAL(X)
#undef X
	};
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		void *p = dlsym(handle, table[i].name);

		if (!p && table[i].required)
			return table[i].name;
		*(void **)((char *)&vb + table[i].slot) = p;
	}
#define X(fn, result, args) vb_newer.fn = (result(*) args)dlsym(handle, #fn);
	VB_NEWER(X)
#undef X
	vb_handle = handle;
	return NULL;
}

void *vb_symbol(const char *name)
{
	return vb_handle ? dlsym(vb_handle, name) : NULL;
}

/* Go keeps its own view of these structures (layout.go), so that it can fill
 * and read them in place; the build stops where the header disagrees. */
#define AT(type, field, offset)                                                \
	_Static_assert(offsetof(struct type, field) == offset, #type "." #field)

AT(ibv_send_wr, wr_id, 0);
AT(ibv_send_wr, next, 8);
AT(ibv_send_wr, sg_list, 16);
AT(ibv_send_wr, num_sge, 24);
AT(ibv_send_wr, opcode, 28);
AT(ibv_send_wr, send_flags, 32);
AT(ibv_send_wr, imm_data, 36);
AT(ibv_send_wr, wr.rdma.remote_addr, 40);
AT(ibv_send_wr, wr.rdma.rkey, 48);
AT(ibv_send_wr, wr.atomic.compare_add, 48);
AT(ibv_send_wr, wr.atomic.swap, 56);
AT(ibv_send_wr, wr.atomic.rkey, 64);
AT(ibv_send_wr, wr.ud.ah, 40);
AT(ibv_send_wr, wr.ud.remote_qpn, 48);
AT(ibv_send_wr, wr.ud.remote_qkey, 52);
AT(ibv_send_wr, qp_type.xrc.remote_srqn, 72);
AT(ibv_send_wr, bind_mw.mw, 80);
AT(ibv_send_wr, bind_mw.rkey, 88);
AT(ibv_send_wr, bind_mw.bind_info.mr, 96);
AT(ibv_send_wr, bind_mw.bind_info.addr, 104);
AT(ibv_send_wr, bind_mw.bind_info.length, 112);
AT(ibv_send_wr, bind_mw.bind_info.mw_access_flags, 120);
_Static_assert(sizeof(struct ibv_send_wr) == 128, "ibv_send_wr");

AT(ibv_sge, addr, 0);
AT(ibv_sge, length, 8);
AT(ibv_sge, lkey, 12);
_Static_assert(sizeof(struct ibv_sge) == 16, "ibv_sge");

AT(ibv_recv_wr, wr_id, 0);
AT(ibv_recv_wr, next, 8);
AT(ibv_recv_wr, sg_list, 16);
AT(ibv_recv_wr, num_sge, 24);
_Static_assert(sizeof(struct ibv_recv_wr) == 32, "ibv_recv_wr");

AT(ibv_wc, wr_id, 0);
AT(ibv_wc, status, 8);
AT(ibv_wc, opcode, 12);
AT(ibv_wc, vendor_err, 16);
AT(ibv_wc, byte_len, 20);
AT(ibv_wc, imm_data, 24);
AT(ibv_wc, qp_num, 28);
AT(ibv_wc, src_qp, 32);
AT(ibv_wc, wc_flags, 36);
AT(ibv_wc, pkey_index, 40);
AT(ibv_wc, slid, 42);
AT(ibv_wc, sl, 44);
AT(ibv_wc, dlid_path_bits, 45);
_Static_assert(sizeof(struct ibv_wc) == 48, "ibv_wc");

_Static_assert(sizeof(struct ibv_port_attr) == 52 || sizeof(struct ibv_port_attr) == 56, "ibv_port_attr");
AT(ibv_port_attr, port_cap_flags2, 48);

AT(ibv_grh, sgid, 8);
AT(ibv_grh, dgid, 24);
_Static_assert(sizeof(struct ibv_grh) == 40, "ibv_grh");

AT(ibv_flow_attr, type, 4);
AT(ibv_flow_attr, size, 8);
AT(ibv_flow_attr, priority, 10);
AT(ibv_flow_attr, num_of_specs, 12);
AT(ibv_flow_attr, port, 13);
AT(ibv_flow_attr, flags, 16);
_Static_assert(sizeof(struct ibv_flow_attr) == 20, "ibv_flow_attr");
AT(ibv_flow_spec_eth, val, 6);
_Static_assert(sizeof(struct ibv_flow_spec_eth) == 40, "ibv_flow_spec_eth");
AT(ibv_flow_spec_ipv4, val, 8);
_Static_assert(sizeof(struct ibv_flow_spec_ipv4) == 24, "ibv_flow_spec_ipv4");
AT(ibv_flow_spec_ipv6, val, 8);
_Static_assert(sizeof(struct ibv_flow_spec_ipv6) == 88, "ibv_flow_spec_ipv6");
AT(ibv_flow_spec_tcp_udp, val, 6);
_Static_assert(sizeof(struct ibv_flow_spec_tcp_udp) == 16, "ibv_flow_spec_tcp_udp");
AT(ibv_flow_spec_action_tag, tag_id, 8);
AT(ibv_flow_spec_counter_action, counters, 8);
