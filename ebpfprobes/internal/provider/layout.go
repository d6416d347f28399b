package provider

import (
	"slices"
	"strconv"
	"strings"
)

// The private table that a provider hands to libibverbs (struct verbs_context_ops of
// rdma-core's libibverbs/driver.h), a word a name. Which names it has differs between
// versions; here is all of 65, and below what came when.
var tableNames = strings.Fields(`
	advise_mr alloc_buf alloc_dm alloc_dmah alloc_mw alloc_null_mr alloc_parent_domain
	alloc_pd alloc_td async_event attach_counters_point_flow attach_mcast bind_mw
	close_xrcd cq_event create_ah create_comp_cntr create_counters create_cq create_cq_ex
	create_flow create_flow_action_esp create_qp create_qp_ex create_rwq_ind_table
	create_srq create_srq_ex create_wq dealloc_dmah dealloc_mw dealloc_pd dealloc_td
	dereg_mr destroy_ah destroy_comp_cntr destroy_counters destroy_cq destroy_flow
	destroy_flow_action destroy_qp destroy_rwq_ind_table destroy_srq destroy_wq
	detach_mcast dm_export_dmabuf_fd free_buf free_context free_dm get_srq_num import_dm
	import_mr import_pd inc_comp_cntr inc_err_comp_cntr modify_cq modify_flow_action_esp
	modify_qp modify_qp_rate_limit modify_srq modify_wq open_qp open_xrcd poll_cq
	post_recv post_send post_srq_ops post_srq_recv qp_attach_comp_cntr
	query_comp_cntr_caps query_device_ex query_ece query_port query_port_speed query_qp
	query_qp_data_in_order query_rt_values query_srq read_comp_cntr read_counters
	read_err_comp_cntr reg_dm_mr reg_dmabuf_mr reg_mr reg_mr_ex req_notify_cq rereg_mr
	resize_cq set_comp_cntr set_ece set_err_comp_cntr unimport_dm unimport_mr unimport_pd`)

// additions are the names that came after 34, those together that belong together.
// Versions before 57 bear the private number 34 whatever they have of them.
var additions = [][]string{
	{"query_qp_data_in_order"},
	{"alloc_dmah", "dealloc_dmah", "reg_mr_ex"},
	{"dm_export_dmabuf_fd"},
	{"query_port_speed"},
	{"alloc_buf", "free_buf"},
	{"create_comp_cntr", "destroy_comp_cntr", "inc_comp_cntr", "inc_err_comp_cntr",
		"qp_attach_comp_cntr", "query_comp_cntr_caps", "read_comp_cntr",
		"read_err_comp_cntr", "set_comp_cntr", "set_err_comp_cntr"},
}

// layouts gives the tables that a library of a private number may have. Of a number
// between those that were read it is any of them, and what fits decides.
func layouts(private string) [][]string {
	n, err := strconv.Atoi(strings.TrimPrefix(private, "IBVERBS_PRIVATE_"))
	if err != nil || n < 34 {
		return nil
	}
	least, most := 0, len(additions)
	switch {
	case n == 34:
		most = 1
	case n == 65:
		least = most
	case n > 34:
		least = 1
	}
	var list [][]string
	// Which of the groups between least and most a table has, bit by bit.
	for bits := range 1 << (most - least) {
		var without []string
		for i := least; i < most; i++ {
			if bits>>(i-least)&1 == 0 {
				without = append(without, additions[i]...)
			}
		}
		list = append(list, slices.DeleteFunc(slices.Clone(tableNames), func(name string) bool {
			return slices.Contains(without, name) || slices.ContainsFunc(additions[most:], func(g []string) bool { return slices.Contains(g, name) })
		}))
	}
	return list
}
