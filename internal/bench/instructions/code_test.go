//go:build linux && amd64

package instructions

import (
	"maps"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestWrites(t *testing.T) {
	for does, want := range map[string]Write{
		"mov    %rax,0x8(%rsp)": StackWrite, "movups %xmm15,-0x10(%rbp)": MemoryWrite, "mov    %rax,(%rbx,%rcx,8)": MemoryWrite,
		"mov    0x8(%rsp),%rax": NoWrite, "movl   $0x0,0x10(%rdi)": MemoryWrite, "lock cmpxchg %rcx,(%rdx)": MemoryWrite,
		"cmpl   $0x0,0x18(%rax)": NoWrite, "lea    0x8(%rsp),%rdi": NoWrite, "nopw   0x0(%rax,%rax,1)": NoWrite,
		"incq   0x28(%rbx)": MemoryWrite, "mov    %eax,0x2ecb(%rip)        # 404010 <count>": MemoryWrite, "ret": NoWrite,
		"call   401020 <puts@plt>": NoWrite, "rep stos %rax,%es:(%rdi)": MemoryWrite, "push   %rbp": NoWrite, "xor    %eax,%eax": NoWrite,
		"sete   %al": NoWrite, "jne    401020 <main+0x8>": NoWrite, "idivl  0x4(%rsp)": NoWrite, "testb  $0x1,(%rax)": NoWrite,
	} {
		if got := writes(does); got != want {
			t.Errorf("%s: %d, want %d", does, got, want)
		}
	}
}

// TestStackChecks: they are left out, and only they.
func TestStackChecks(t *testing.T) {
	const text = `
0000000000001000 <grows>:
  1000:	lea    -0x10(%rsp),%r12
  1005:	cmp    0x10(%r14),%r12
  1009:	jbe    1040 <grows+0x40>
  100f:	mov    %rbx,0x8(%rsp)
  1014:	jbe    1030 <grows+0x30>
  1030:	mov    %rax,(%rbx)
  1033:	ret
  1040:	mov    %rax,0x8(%rsp)
  1045:	call   495440 <runtime.morestack_noctxt.abi0>
  104a:	mov    0x8(%rsp),%rax
  104f:	jmp    1000 <grows>
0000000000002000 <small>:
  2000:	cmp    $0x1,%rax
  2004:	jbe    2010 <small+0x10>
  2006:	ret
  2010:	mov    %rax,(%rbx)
  2013:	ret
0000000000003000 <other>:
  3000:	ret
`
	code := listed([]byte(text), func(name string) bool { return name != "other" })
	want := map[uint64]Write{0x100f: StackWrite, 0x1014: NoWrite, 0x1030: MemoryWrite, 0x1033: NoWrite,
		0x2000: NoWrite, 0x2004: NoWrite, 0x2006: NoWrite, 0x2010: MemoryWrite, 0x2013: NoWrite}
	if !maps.Equal(code, want) {
		t.Errorf("%x", code)
	}
}

func TestCountCode(t *testing.T) {
	program := filepath.Join(t.TempDir(), "writes")
	if out, err := exec.Command("gcc", "-O1", "-no-pie", "-o", program, "testdata/writes.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	code, err := Code(program, func(name string) bool { return name == "work" })
	if err != nil {
		t.Fatal(err)
	}
	parts, err := CountCode(exec.Command(program), code)
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 2 || parts[0].MemoryWrites != 10 || parts[1].MemoryWrites != 30 || parts[0].StackWrites != 10 || parts[1].StackWrites != 30 ||
		parts[1].Instructions-parts[0].Instructions < 40 || parts[1].Instructions > 300 {
		t.Errorf("%+v", parts)
	}
	if _, err := Code(program, func(string) bool { return false }); err == nil {
		t.Error("code of no function")
	}
}
