package dmabuf

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestPCIAddress(t *testing.T) {
	for name, want := range map[string]string{"memfd": "", "udmabuf": "", "heap:system": "", "vfio:0000:3b:00.0:2": "0000:3b:00.0"} {
		if got, err := PCIAddress(name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := PCIAddress("nothing:3"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an exporter that there is not: %v", err)
	}
	root := t.TempDir()
	folder := filepath.Join(root, "sys/devices/pci0000:00/0000:00:02.0/drm/card1")
	drm := filepath.Join(root, "sys/class/drm")
	for _, f := range []string{folder, drm} {
		if err := os.MkdirAll(f, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{filepath.Join(folder, "device"): "../..", filepath.Join(drm, "card1"): folder} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := (&card{root, "card1"}).pciAddress(); got != "0000:00:02.0" || err != nil {
		t.Errorf("a card: %q, %v", got, err)
	}
	if got, err := (&card{root, "card2"}).pciAddress(); err == nil {
		t.Errorf("a card that there is not: %q", got)
	}
}
