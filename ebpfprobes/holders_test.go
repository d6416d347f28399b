package ebpfprobes

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestBufferHolders(t *testing.T) {
	proc := t.TempDir()
	for name, text := range map[string]string{
		"1/maps": "7f0000000000-7f0000001000 rw-s 00000000 00:0b 42                         /dmabuf:\n" +
			"7f0000001000-7f0000002000 rw-s 00000000 00:0b 43                         /dmabuf:frame 1\n" +
			"7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n" +
			"7f0000003000-7f0000004000 r-xp 00000000 08:01 44                         /usr/lib/dmabuf:\n",
		"2/maps":    "broken\n",
		"self/maps": "7f0000000000-7f0000001000 rw-s 00000000 00:0b 99                         /dmabuf:\n",
	} {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := slices.Sorted(maps.Keys(bufferHolders(proc))); !slices.Equal(got, []uint64{42, 43}) {
		t.Errorf("%v, want 42 and 43", got)
	}
}
