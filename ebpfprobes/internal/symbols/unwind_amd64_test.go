package symbols

import "golang.org/x/sys/unix"

// kernelOrder gives the registers as struct pt_regs has them.
func kernelOrder(r *unix.PtraceRegs) ([]uint64, uint64) {
	return []uint64{
		r.R15, r.R14, r.R13, r.R12, r.Rbp, r.Rbx, r.R11, r.R10, r.R9, r.R8, r.Rax, r.Rcx, r.Rdx,
		r.Rsi, r.Rdi, r.Orig_rax, r.Rip, r.Cs, r.Eflags, r.Rsp, r.Ss,
	}, r.Rsp
}
