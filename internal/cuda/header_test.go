package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestHeader compiles what this package declares by itself beside the real header.
func TestHeader(t *testing.T) {
	folder := "/usr/local/cuda/include"
	if home := os.Getenv("CUDA_HOME"); home != "" {
		folder = filepath.Join(home, "include")
	}
	if _, err := os.Stat(filepath.Join(folder, "cuda.h")); err != nil {
		t.Skipf("needs a CUDA toolkit's header, in CUDA_HOME or /usr/local/cuda: %v", err)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("needs a C compiler: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), cc, "-fsyntax-only", "-Werror=incompatible-pointer-types", "-I", folder, "testdata/header.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd, err, out)
	}
}
