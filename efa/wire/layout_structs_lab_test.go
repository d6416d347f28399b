//go:build lab

package wire

// A layout says where a Go type's fields are in a C struct. fields has words
// GoField=c_field, c_field&MASK for some of its bits, and joins with + what one Go
// field has in several places.
type layout struct {
	c      string // the struct's name without efa_
	format format
	fields string
}

// adminLayouts are the structs of efa_admin_defs.h and efa_admin_cmds_defs.h.
var adminLayouts = []layout{
	{"admin_aq_common_desc", of[AQDesc](SizeAQDesc),
		"CommandID=command_id&EFA_ADMIN_AQ_COMMON_DESC_COMMAND_ID_MASK Opcode=opcode Flags=flags"},
	{"admin_aq_common_desc_v2", of[AQDescV2](SizeAQDescV2),
		"CommandID=common.command_id&EFA_ADMIN_AQ_COMMON_DESC_COMMAND_ID_MASK Opcode=common.opcode " +
			"Flags=common.flags Checksum=checksum PayloadVer=payload_ver"},
	{"admin_acq_common_desc", of[ACQDesc](SizeACQDesc),
		"CommandID=command&EFA_ADMIN_ACQ_COMMON_DESC_COMMAND_ID_MASK Status=status Flags=flags Checksum=checksum"},
	{"admin_ctrl_buff_info", of[CtrlBuffer](SizeCtrlBuffer), "Length=length Addr=address.mem_addr_low+address.mem_addr_high"},
	{"admin_aenq_common_desc", of[AENQDesc](SizeAENQDesc),
		"Group=group Syndrome=syndrome Phase=flags&EFA_ADMIN_AENQ_COMMON_DESC_PHASE_MASK " +
			"Timestamp=timestamp_low+timestamp_high"},
	{"admin_aenq_entry", of[AENQEntry](SizeAENQEntry),
		"Group=aenq_common_desc.group Syndrome=aenq_common_desc.syndrome " +
			"Phase=aenq_common_desc.flags&EFA_ADMIN_AENQ_COMMON_DESC_PHASE_MASK " +
			"Timestamp=aenq_common_desc.timestamp_low+aenq_common_desc.timestamp_high Data=inline_data_w4"},
	{"admin_mmio_req_read_less_resp", of[MMIOResp](SizeMMIOResp), "ReqID=req_id RegOff=reg_off Value=reg_val"},
	{"admin_eqe", of[EQE](SizeEQE),
		"Phase=common&EFA_ADMIN_EQE_PHASE_MASK Type=common&EFA_ADMIN_EQE_EVENT_TYPE_MASK CQN=u.comp_event.cqn"},

	{"admin_create_qp_cmd", of[CreateQP](SizeCreateQP),
		"PD=pd Type=qp_type Flags=flags SQBaseAddr=sq_base_addr RQBaseAddr=rq_base_addr SendCQ=send_cq_idx " +
			"RecvCQ=recv_cq_idx SQLKey=sq_l_key RQLKey=rq_l_key SQRingSize=qp_alloc_size.send_queue_ring_size " +
			"SQDepth=qp_alloc_size.send_queue_depth RQRingSize=qp_alloc_size.recv_queue_ring_size " +
			"RQDepth=qp_alloc_size.recv_queue_depth UAR=uar ServiceLevel=sl"},
	{"admin_create_qp_resp", of[CreateQPResp](SizeCreateQPResp),
		"Handle=qp_handle QPNum=qp_num SendSubCQ=send_sub_cq_idx RecvSubCQ=recv_sub_cq_idx SQDB=sq_db_offset " +
			"RQDB=rq_db_offset LLQ=llq_descriptors_offset"},
	{"admin_modify_qp_cmd", of[ModifyQP](SizeModifyQP),
		"Mask=modify_mask Handle=qp_handle State=qp_state CurState=cur_qp_state QKey=qkey SQPSN=sq_psn " +
			"SQDrainedAsyncNotify=sq_drained_async_notify RNRRetry=rnr_retry"},
	{"admin_query_qp_cmd", of[QueryQP](SizeQueryQP), "Handle=qp_handle"},
	{"admin_query_qp_resp", of[QueryQPResp](SizeQueryQPResp),
		"State=qp_state QKey=qkey SQPSN=sq_psn SQDraining=sq_draining RNRRetry=rnr_retry"},
	{"admin_destroy_qp_cmd", of[DestroyQP](SizeDestroyQP), "Handle=qp_handle"},
	{"admin_create_ah_cmd", of[CreateAH](SizeCreateAH), "DestAddr=dest_addr PD=pd"},
	{"admin_create_ah_resp", of[CreateAHResp](SizeCreateAHResp), "AH=ah"},
	{"admin_destroy_ah_cmd", of[DestroyAH](SizeDestroyAH), "AH=ah PD=pd"},
	{"admin_reg_mr_cmd", of[RegMR](SizeRegMR),
		"PD=pd Pages=pbl.inline_pbl_array Length=mr_length " +
			"PageShift=flags&EFA_ADMIN_REG_MR_CMD_PHYS_PAGE_SIZE_SHIFT_MASK " +
			"PhysMode=flags&EFA_ADMIN_REG_MR_CMD_MEM_ADDR_PHY_MODE_EN_MASK " +
			"Access=permissions PageNum=page_num IOVA=iova"},
	{"admin_reg_mr_resp", of[RegMRResp](SizeRegMRResp),
		"LKey=l_key RKey=r_key Validity=validity RecvIC=recv_ic_id RDMAReadIC=rdma_read_ic_id RDMARecvIC=rdma_recv_ic_id"},
	{"admin_dereg_mr_cmd", of[DeregMR](SizeDeregMR), "LKey=l_key"},
	{"admin_alloc_mr_cmd", of[AllocMR](SizeAllocMR), "PD=pd MaxPages=max_pages"},
	{"admin_alloc_mr_resp", of[AllocMRResp](SizeAllocMRResp), "LKey=l_key RKey=r_key"},
	{"admin_create_cq_cmd", of[CreateCQ](SizeCreateCQ),
		"Caps=cq_caps_1 EntryWords=cq_caps_2&EFA_ADMIN_CREATE_CQ_CMD_CQ_ENTRY_SIZE_WORDS_MASK " +
			"Flags=cq_caps_2&~EFA_ADMIN_CREATE_CQ_CMD_CQ_ENTRY_SIZE_WORDS_MASK SubCQDepth=sub_cq_depth EQN=eqn " +
			"BaseAddr=cq_ba.mem_addr_low+cq_ba.mem_addr_high LKey=l_key NumSubCQs=num_sub_cqs UAR=uar"},
	{"admin_create_cq_resp", of[CreateCQResp](SizeCreateCQResp),
		"CQ=cq_idx SubCQDepth=sub_cq_actual_depth DB=db_offset Flags=flags"},
	{"admin_destroy_cq_cmd", of[DestroyCQ](SizeDestroyCQ), "CQ=cq_idx"},
	{"admin_alloc_pd_resp", of[AllocPDResp](SizeAllocPDResp), "PD=pd"},
	{"admin_dealloc_pd_cmd", of[DeallocPD](SizeDeallocPD), "PD=pd"},
	{"admin_alloc_uar_resp", of[AllocUARResp](SizeAllocUARResp), "UAR=uar"},
	{"admin_dealloc_uar_cmd", of[DeallocUAR](SizeDeallocUAR), "UAR=uar"},
	{"admin_create_eq_cmd", of[CreateEQ](SizeCreateEQ),
		"Depth=depth MSIXVector=msix_vec EntryWords=caps&EFA_ADMIN_CREATE_EQ_CMD_ENTRY_SIZE_WORDS_MASK " +
			"BaseAddr=ba Events=event_bitmask"},
	{"admin_create_eq_resp", of[CreateEQResp](SizeCreateEQResp), "EQN=eqn"},
	{"admin_destroy_eq_cmd", of[DestroyEQ](SizeDestroyEQ), "EQN=eqn"},
	{"admin_create_event_counter_cmd", of[CreateEventCounter](SizeCreateEventCounter), "UAR=uar Addr=paddr"},
	{"admin_create_event_counter_resp", of[CreateEventCounterResp](SizeCreateEventCounterResp), "Handle=cntr_handle"},
	{"admin_destroy_event_counter_cmd", of[DestroyEventCounter](SizeDestroyEventCounter), "Handle=cntr_handle"},
	{"admin_attach_detach_event_counter_cmd", of[AttachEventCounter](SizeAttachEventCounter),
		"Handle=cntr_handle Type=attach_type QPHandle=u.qp_events.qp_handle Events=u.qp_events.events"},
	{"admin_modify_event_counter_cmd", of[ModifyEventCounter](SizeModifyEventCounter),
		"Handle=cntr_handle Operation=operation Value=value"},
	{"admin_service_cmd", of[Service](SizeService), "Buffer=buffer"},
	{"admin_service_resp", of[ServiceResp](SizeServiceResp), "Buffer=buffer"},

	{"admin_aq_get_stats_cmd", of[GetStats](SizeGetStats),
		"ControlBuffer.Length=control_buffer.length ControlBuffer.Addr=control_buffer.address " +
			"Type=type Scope=scope ScopeModifier=scope_modifier"},
	{"admin_basic_stats", of[BasicStats](SizeBasicStats),
		"TxBytes=tx_bytes TxPkts=tx_pkts RxBytes=rx_bytes RxPkts=rx_pkts RxDrops=rx_drops QKeyViol=qkey_viol"},
	{"admin_messages_stats", of[MessagesStats](SizeMessagesStats),
		"SendBytes=send_bytes SendWRs=send_wrs RecvBytes=recv_bytes RecvWRs=recv_wrs"},
	{"admin_rdma_read_stats", of[RDMAReadStats](SizeRDMAReadStats),
		"ReadWRs=read_wrs ReadBytes=read_bytes ReadWRErr=read_wr_err ReadRespBytes=read_resp_bytes"},
	{"admin_rdma_write_stats", of[RDMAWriteStats](SizeRDMAWriteStats),
		"WriteWRs=write_wrs WriteBytes=write_bytes WriteWRErr=write_wr_err WriteRecvBytes=write_recv_bytes"},
	{"admin_network_stats", of[NetworkStats](SizeNetworkStats),
		"RetransBytes=retrans_bytes RetransPkts=retrans_pkts RetransTimeoutEvents=retrans_timeout_events " +
			"UnresponsiveRemoteEvents=unresponsive_remote_events ImpairedRemoteConnEvents=impaired_remote_conn_events"},

	{"admin_get_feature_cmd", of[GetFeature](SizeGetFeature),
		"ControlBuffer.Length=control_buffer.length ControlBuffer.Addr=control_buffer.address " +
			"Feature=feature_common.feature_id Raw=raw"},
	{"admin_set_feature_cmd", of[SetFeature](SizeSetFeature),
		"ControlBuffer.Length=control_buffer.length ControlBuffer.Addr=control_buffer.address " +
			"Feature=feature_common.feature_id Data=u.raw"},
	{"admin_feature_device_attr_desc", of[DeviceAttr](SizeDeviceAttr),
		"SupportedFeatures=supported_features PageSizeCap=page_size_cap FWVersion=fw_version " +
			"AdminAPIVersion=admin_api_version DeviceVersion=device_version DoorbellBAR=db_bar " +
			"PhysAddrWidth=phys_addr_width VirtAddrWidth=virt_addr_width Caps=device_caps MaxRDMASize=max_rdma_size " +
			"GUID=guid MaxLinkSpeed=max_link_speed_gbps"},
	{"admin_feature_queue_attr_desc_1", of[QueueAttr1](SizeQueueAttr1),
		"MaxQP=max_qp MaxSQDepth=max_sq_depth InlineBufSize=inline_buf_size MaxRQDepth=max_rq_depth MaxCQ=max_cq " +
			"MaxCQDepth=max_cq_depth SubCQsPerCQ=sub_cqs_per_cq MinSQDepth=min_sq_depth MaxSendSGEs=max_wr_send_sges " +
			"MaxRecvSGEs=max_wr_recv_sges MaxMR=max_mr MaxMRPages=max_mr_pages MaxPD=max_pd MaxAH=max_ah " +
			"MaxLLQSize=max_llq_size MaxRDMASGEs=max_wr_rdma_sges MaxTxBatch=max_tx_batch"},
	{"admin_feature_queue_attr_desc_2", of[QueueAttr2](SizeQueueAttr2),
		"InlineBufSizeEx=inline_buf_size_ex CounterEvents=supported_event_counter_qp_events " +
			"MaxCounters=max_event_counters CounterMaxVal=event_counter_max_val"},
	{"admin_event_queue_attr_desc", of[EventQueueAttr](SizeEventQueueAttr),
		"MaxEQ=max_eq MaxEQDepth=max_eq_depth Events=event_bitmask"},
	{"admin_feature_aenq_desc", of[AENQConfig](SizeAENQConfig), "Supported=supported_groups Enabled=enabled_groups"},
	{"admin_feature_network_attr_desc", of[NetworkAttr](SizeNetworkAttr), "Addr=addr MTU=mtu"},
	{"admin_hw_hints", of[HWHints](SizeHWHints),
		"MMIOReadTimeout=mmio_read_timeout DriverWatchdogTimeout=driver_watchdog_timeout " +
			"AdminCompletionTimeout=admin_completion_timeout PollInterval=poll_interval"},
	{"admin_host_info", of[HostInfo](SizeHostInfo),
		"OSDist=os_dist_str OSType=os_type KernelVerStr=kernel_ver_str KernelVer=kernel_ver " +
			"DriverModuleType=driver_ver&EFA_ADMIN_HOST_INFO_DRIVER_MODULE_TYPE_MASK " +
			"DriverSubMinor=driver_ver&EFA_ADMIN_HOST_INFO_DRIVER_SUB_MINOR_MASK " +
			"DriverMinor=driver_ver&EFA_ADMIN_HOST_INFO_DRIVER_MINOR_MASK " +
			"DriverMajor=driver_ver&EFA_ADMIN_HOST_INFO_DRIVER_MAJOR_MASK " +
			"Function=bdf&EFA_ADMIN_HOST_INFO_FUNCTION_MASK Device=bdf&EFA_ADMIN_HOST_INFO_DEVICE_MASK " +
			"Bus=bdf&EFA_ADMIN_HOST_INFO_BUS_MASK SpecMinor=spec_ver&EFA_ADMIN_HOST_INFO_SPEC_MINOR_MASK " +
			"SpecMajor=spec_ver&EFA_ADMIN_HOST_INFO_SPEC_MAJOR_MASK Flags=flags"},
}

const (
	hotHeadFields = "ReqID=meta.req_id+meta.req_id_ex Control=meta.ctrl1+meta.ctrl2 DestQP=meta.dest_qp_num " +
		"Length=meta.length Imm=meta.immediate_data AH=meta.ah " +
		"Hints=meta.ctrl3&EFA_IO_TX_META_DESC_PROCESSING_HINTS_MASK QKey=meta.qkey "
	hotRemoteFields = "Remote.Length=data.rdma_req.remote_mem.length Remote.RKey=data.rdma_req.remote_mem.rkey " +
		"Remote.Addr=data.rdma_req.remote_mem.buf_addr_lo+data.rdma_req.remote_mem.buf_addr_hi "
)

// ioLayouts are the structs of efa_io_defs.h that the kernel and rdma-core share,
// as structs and in the data path's forms.
var ioLayouts = []layout{
	{"io_tx_meta_desc", of[TxMeta](SizeTxMeta),
		"ReqID=req_id+req_id_ex.w Control=ctrl1+ctrl2 DestQP=dest_qp_num Length=length Imm=immediate_data AH=ah " +
			"Hints=ctrl3&EFA_IO_TX_META_DESC_PROCESSING_HINTS_MASK QKey=qkey"},
	{"io_tx_buf_desc", of[TxBuf](SizeTxBuf),
		"Length=length LKey=lkey&EFA_IO_TX_BUF_DESC_LKEY_MASK Addr=buf_addr_lo+buf_addr_hi"},
	{"io_remote_mem_addr", of[RemoteBuf](SizeRemoteBuf), "Length=length RKey=rkey Addr=buf_addr_lo+buf_addr_hi"},
	{"io_rdma_req", of[RDMAReq](SizeRDMAReq),
		"Remote.Length=remote_mem.length Remote.RKey=remote_mem.rkey " +
			"Remote.Addr=remote_mem.buf_addr_lo+remote_mem.buf_addr_hi Local.Length=local_mem[0].length " +
			"Local.LKey=local_mem[0].lkey&EFA_IO_TX_BUF_DESC_LKEY_MASK " +
			"Local.Addr=local_mem[0].buf_addr_lo+local_mem[0].buf_addr_hi"},
	{"io_rx_desc", of[RxDesc](SizeRxDesc),
		"Addr=buf_addr_lo+buf_addr_hi ReqID=req_id Length=length LKey=lkey_ctrl&EFA_IO_RX_DESC_LKEY_MASK " +
			"First=lkey_ctrl&EFA_IO_RX_DESC_FIRST_MASK Last=lkey_ctrl&EFA_IO_RX_DESC_LAST_MASK"},
	{"io_cdesc_common", of[CQECommon](SizeCQECommon), "ReqID=req_id Status=status Flags=flags QP=qp_num"},
	{"io_tx_cdesc", of[TxCQE](SizeTxCQE),
		"ReqID=common.req_id Status=common.status Flags=common.flags QP=common.qp_num ReqIDHigh=req_id_ex"},
	{"io_rx_cdesc", of[RxCQE](SizeRxCQE),
		"ReqID=common.req_id Status=common.status Flags=common.flags QP=common.qp_num Length=length AH=ah " +
			"SrcQP=src_qp_num Imm=imm"},
	{"io_rx_cdesc_ex", of[RxCQEEx](SizeRxCQEEx),
		"ReqID=base.common.req_id Status=base.common.status Flags=base.common.flags QP=base.common.qp_num " +
			"Length=base.length AH=base.ah SrcQP=base.src_qp_num Imm=base.imm Ext=u.src_addr"},

	{"io_tx_wqe", of[hotSend](64), hotHeadFields +
		"Buf0.Length=data.sgl[0].length Buf0.LKey=data.sgl[0].lkey&EFA_IO_TX_BUF_DESC_LKEY_MASK " +
		"Buf0.Addr=data.sgl[0].buf_addr_lo+data.sgl[0].buf_addr_hi " +
		"Buf1.Length=data.sgl[1].length Buf1.LKey=data.sgl[1].lkey&EFA_IO_TX_BUF_DESC_LKEY_MASK " +
		"Buf1.Addr=data.sgl[1].buf_addr_lo+data.sgl[1].buf_addr_hi"},
	{"io_tx_wqe", of[hotInline](64), hotHeadFields + "Data=data.inline_data"},
	{"io_tx_wqe", of[hotRDMA](64), hotHeadFields + hotRemoteFields +
		"Local.Length=data.rdma_req.local_mem[0].length " +
		"Local.LKey=data.rdma_req.local_mem[0].lkey&EFA_IO_TX_BUF_DESC_LKEY_MASK " +
		"Local.Addr=data.rdma_req.local_mem[0].buf_addr_lo+data.rdma_req.local_mem[0].buf_addr_hi"},
	{"io_rx_desc", of[hotRx](16),
		"Addr=buf_addr_lo+buf_addr_hi ReqID=req_id Length=length LKey=lkey_ctrl&EFA_IO_RX_DESC_LKEY_MASK " +
			"First=lkey_ctrl&EFA_IO_RX_DESC_FIRST_MASK Last=lkey_ctrl&EFA_IO_RX_DESC_LAST_MASK"},
	{"io_tx_cdesc", of[hotTxCQE](16), hotWordFields + "ReqID=common.req_id+req_id_ex QP=common.qp_num"},
	{"io_rx_cdesc", of[hotRxCQE](16), hotWordFields +
		"ReqID=common.req_id QP=common.qp_num Length=length AH=ah SrcQP=src_qp_num Imm=imm"},
	{"io_rx_cdesc_ex", of[hotLengthHi](32), "Hi=u.rdma_write.length_hi"},
	{"io_rx_cdesc_ex", of[hotSrcAddr](32), "GID=u.src_addr"},
}

const hotWordFields = "Status=common.status Phase=common.flags&EFA_IO_CDESC_COMMON_PHASE_MASK " +
	"Queue=common.flags&EFA_IO_CDESC_COMMON_Q_TYPE_MASK HasImm=common.flags&EFA_IO_CDESC_COMMON_HAS_IMM_MASK " +
	"Op=common.flags&EFA_IO_CDESC_COMMON_OP_TYPE_MASK Unsolicited=common.flags&EFA_IO_CDESC_COMMON_UNSOLICITED_MASK "

// kernelLayouts are structs that only the kernel's efa_io_defs.h has.
var kernelLayouts = []layout{
	{"io_fast_mr_reg_req", of[FastRegMR](SizeFastRegMR),
		"LKey=lkey Access=permissions PageShift=flags&EFA_IO_FAST_MR_REG_REQ_PHYS_PAGE_SIZE_SHIFT_MASK " +
			"PBLMode=flags&EFA_IO_FAST_MR_REG_REQ_PBL_MODE_MASK IOVA=iova Length=mr_length PBL=pbl.dma_addr"},
	{"io_fast_mr_reg_req", of[FastRegMR](SizeFastRegMR),
		"LKey=lkey Access=permissions PageShift=flags&EFA_IO_FAST_MR_REG_REQ_PHYS_PAGE_SIZE_SHIFT_MASK " +
			"PBLMode=flags&EFA_IO_FAST_MR_REG_REQ_PBL_MODE_MASK IOVA=iova Length=mr_length PBL=pbl.inline_array"},
	{"io_fast_mr_inv_req", of[FastInvMR](SizeFastInvMR), "LKey=lkey"},
}

// coreLayouts are structs that only rdma-core's efa_io_defs.h has.
var coreLayouts = []layout{
	{"io_tx_wqe_128", of[hotWideInline](128), hotHeadFields + "Data=data.inline_data"},
	{"io_tx_wqe_128", of[hotWideRDMAInline](128), hotHeadFields + hotRemoteFields + "Data=data.rdma_req.inline_data"},
}

// coreNumbers are the constants that only rdma-core's headers have.
var coreNumbers = []number{
	{"EFA_IO_TX_DESC_INLINE_MAX_SIZE_128", uint64(MaxInlineWide)},
	{"offsetof(struct efa_io_tx_wqe_128, data.sgl)", uint64(SizeTxMeta)},
	{"offsetof(struct efa_io_tx_wqe_128, data.rdma_req.local_mem)", uint64(SizeTxMeta + SizeRemoteBuf)},
	{"EFA_IO_REGS_CQ_DB_CONSUMER_INDEX_MASK", uint64(CQDBConsumer)},
	{"EFA_IO_REGS_CQ_DB_CMD_SN_MASK", uint64(CQDBSequence)},
	{"EFA_IO_REGS_CQ_DB_ARM_MASK", uint64(CQDBArm)},
}
