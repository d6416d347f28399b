package verbs

/*
#include "shim.h"

#cgo noescape vb_post_ex
#cgo nocallback vb_post_ex

static int vb_post_ex(struct ibv_qp_ex *ex, void *list, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *wr;

	*bad = list;
	ex->wr_start(ex);
	for (wr = list; wr; wr = wr->next) {
		ex->wr_id = wr->wr_id;
		ex->wr_flags = wr->send_flags;
		switch ((int)wr->opcode) {
		case IBV_WR_RDMA_WRITE:
			ex->wr_rdma_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
			break;
		case IBV_WR_RDMA_WRITE_WITH_IMM:
			ex->wr_rdma_write_imm(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
			break;
		case IBV_WR_RDMA_READ:
			ex->wr_rdma_read(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
			break;
		case IBV_WR_SEND:
			ex->wr_send(ex);
			break;
		case IBV_WR_SEND_WITH_IMM:
			ex->wr_send_imm(ex, wr->imm_data);
			break;
		case IBV_WR_SEND_WITH_INV:
			ex->wr_send_inv(ex, wr->invalidate_rkey);
			break;
		case IBV_WR_ATOMIC_CMP_AND_SWP:
			ex->wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
			break;
		case IBV_WR_ATOMIC_FETCH_AND_ADD:
			ex->wr_atomic_fetch_add(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
						wr->wr.atomic.compare_add);
			break;
		case IBV_WR_LOCAL_INV:
			ex->wr_local_inv(ex, wr->invalidate_rkey);
			break;
		case IBV_WR_BIND_MW:
			ex->wr_bind_mw(ex, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
			break;
		case IBV_WR_TSO:
			ex->wr_send_tso(ex, wr->tso.hdr, wr->tso.hdr_sz, wr->tso.mss);
			break;
		case 14: // flush: address, key, length, and type and level, in the order of sendWR
			vb_wr_flush(ex)(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, ((uint64_t *)&wr->wr)[2],
					((uint8_t *)&wr->wr)[24], ((uint8_t *)&wr->wr)[25]);
			break;
		case IBV_WR_ATOMIC_WRITE:
			ex->wr_atomic_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, (uint64_t *)&wr->wr + 2);
			break;
		default:
			ex->wr_abort(ex);
			return EOPNOTSUPP;
		}
		if (ex->qp_base.qp_type == IBV_QPT_UD)
			ex->wr_set_ud_addr(ex, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
		else if (ex->qp_base.qp_type == IBV_QPT_DRIVER) // of WR.ToPeer
			ex->wr_set_ud_addr(ex, (struct ibv_ah *)wr->bind_mw.mw, wr->bind_mw.rkey,
					   wr->qp_type.xrc.remote_srqn);
		else if (ex->qp_base.qp_type == IBV_QPT_XRC_SEND)
			ex->wr_set_xrc_srqn(ex, wr->qp_type.xrc.remote_srqn);
		if (wr->opcode == IBV_WR_LOCAL_INV || wr->opcode == IBV_WR_BIND_MW ||
		    (int)wr->opcode == 14 || wr->opcode == IBV_WR_ATOMIC_WRITE)
			continue;
		if (wr->send_flags & IBV_SEND_INLINE) {
			if (wr->num_sge == 1)
				ex->wr_set_inline_data(ex, (void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length);
			else {
				struct ibv_data_buf buf[16];
				int i;

				if (wr->num_sge > 16) {
					ex->wr_abort(ex);
					return EINVAL;
				}
				for (i = 0; i < wr->num_sge; i++) {
					buf[i].addr = (void *)(uintptr_t)wr->sg_list[i].addr;
					buf[i].length = wr->sg_list[i].length;
				}
				ex->wr_set_inline_data_list(ex, wr->num_sge, buf);
			}
		} else if (wr->num_sge == 1)
			ex->wr_set_sge(ex, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
		else
			ex->wr_set_sge_list(ex, wr->num_sge, wr->sg_list);
	}
	return vb_rc(ex->wr_complete(ex));
}
*/
import "C"

import "unsafe"

// postExtended posts a chain through the ibv_wr_* interface, all or nothing:
// the driver takes the batch when it completes.
func (q *QP) postExtended(list, bad unsafe.Pointer) C.int {
	return C.vb_post_ex(q.ex, list, (**C.struct_ibv_send_wr)(bad))
}

// gathersWrong tells whether the device's provider cannot be given a list of
// buffers through ibv_wr_set_sge_list. That of rxe counts the first buffer's
// length for all of them when it adds up the message (wr_set_sge_list of
// providers/rxe/rxe.c; seen with rdma-core 44 and 56, a fix was posted to
// linux-rdma in May 2026), and so moves too much or too little without an
// error. Such batches go through ibv_post_send, which feeds the same queue.
func (d *Device) gathersWrong() bool { return d.isRXE() }

// isRXE knows the software RoCE device by its vendor (RXE_VENDOR_ID of
// drivers/infiniband/sw/rxe/rxe_param.h).
func (d *Device) isRXE() bool {
	a, err := d.Attr()
	return err == nil && a.VendorID == 0xffffff
}
