package kernel

import (
	"strings"
	"testing"
)

// Names of Debian's 7.3 modules.
const driverSymbols = `
0 t efa_alloc_ucontext [efa]
0 t efa_reg_mr [efa]
0 t efa_dereg_mr [efa]
0 T efa_com_dereg_mr [efa]
0 t __pfx_efa_dereg_mr [efa]
0 t mlx5_ib_alloc_ucontext [mlx5_ib]
0 t mlx5_ib_dereg_mr [mlx5_ib]
0 t __mlx5_ib_dereg_mr [mlx5_ib]
0 t mlx5_ib_reg_user_mr [mlx5_ib]
0 t mlx5_ib_reg_user_mr_dmabuf [mlx5_ib]
0 t reg_user_mr_dmabuf [mlx5_ib]
0 t bnxt_re_alloc_ucontext [bnxt_re]
0 t bnxt_re_reg_user_mr [bnxt_re]
0 t bnxt_qplib_reg_mr [bnxt_re]
0 t ocrdma_alloc_ucontext [ocrdma]
0 t ocrdma_reg_mr [ocrdma]
0 t ocrdma_reg_user_mr [ocrdma]
0 t usnic_ib_alloc_ucontext [usnic_verbs]
0 t usnic_ib_reg_mr [usnic_verbs]
0 t rxe_alloc_ucontext.constprop.0 [rdma_rxe]
0 t rxe_dereg_mr [rdma_rxe]
`

func TestOperationsByNames(t *testing.T) {
	var s symbols
	s.once.Do(func() { s.byName, s.err = parseSymbols(strings.NewReader(driverSymbols)) })
	for _, c := range []struct{ suffix, module, want string }{
		{"_dereg_mr", "efa", "efa_dereg_mr"},
		{"_dereg_mr", "mlx5_ib", "mlx5_ib_dereg_mr"},
		{"_dereg_mr", "usnic_verbs", ""},
		{"_reg_mr", "efa", "efa_reg_mr"},
		{"_reg_mr", "usnic_verbs", "usnic_ib_reg_mr"},
		{"_reg_mr", "bnxt_re", ""},
		{"_reg_mr", "ocrdma", ""},
		{"_reg_user_mr", "ocrdma", "ocrdma_reg_user_mr"},
		{"_reg_user_mr", "mlx5_ib", "mlx5_ib_reg_user_mr"},
		{"_reg_user_mr_dmabuf", "mlx5_ib", "mlx5_ib_reg_user_mr_dmabuf"},
		// Compiled for one caller: it is in no table, and tells nothing.
		{"_dereg_mr", "rdma_rxe", ""},
	} {
		found, err := s.suffixed(c.suffix, c.module)
		var names []string
		for _, f := range found {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("*%s of %s: %q, %v, want %q", c.suffix, c.module, got, err, c.want)
		}
	}
}
