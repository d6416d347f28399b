package symbols

import "golang.org/x/sys/unix"

// kernelOrder gives the registers as struct user_pt_regs has them.
func kernelOrder(r *unix.PtraceRegs) ([]uint64, uint64) {
	return append(append([]uint64{}, r.Regs[:]...), r.Sp, r.Pc, r.Pstate), r.Sp
}
