package symbols

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzBinary reads files that processes have mapped, which may be anything.
func FuzzBinary(f *testing.F) {
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil && len(self) > 1<<16 {
		f.Add(self[:1<<16], uint64(0x401000))
	}
	f.Add([]byte("\x7fELF"), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, address uint64) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := openBinary(file)
		if err != nil {
			return
		}
		defer b.close()
		b.BuildID()
		b.name(address)
		none := func(uint64) (uint64, bool) { return 0, false }
		b.step(address, true, [columns]uint64{}, dwarfNumbers("amd64"), none)
	})
}
