package doctor

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/internal/sysroot"
)

// The machine that the test runs on, whatever it has: the doctor names the devices
// that are in sysfs and no others, and without any that is what fails.
func TestThisMachine(t *testing.T) {
	root, err := sysroot.Dir("/")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSystem(root, true)
	r := &Report{Live: true}
	for _, c := range slices.Concat(rdmaChecks, pathChecks) {
		r.Checked = append(r.Checked, Checked{c, runCheck(t, s, c.Name)})
	}
	var named []string
	for _, f := range r.Checked[0].Findings {
		if f.Verdict == OK {
			named = append(named, f.Subject)
		}
	}
	there := inventory.Names()
	if !slices.Equal(named, there) {
		t.Errorf("it names %q, and there are %q", named, there)
	}
	if worst, cause := r.Worst(); len(there) == 0 && (worst != Fail || cause != CauseNoDevice) {
		t.Errorf("without a device the worst verdict is %v {%v}\n%s", worst, cause, told(r.Findings()))
	}
	// The functions of the bus are those that sysfs has.
	files, _ := filepath.Glob("/sys/bus/pci/devices/*")
	if topo, _ := s.Topology(); topo == nil && len(files) > 0 || topo != nil && len(topo.Devices) < len(files) {
		t.Errorf("%d PCI functions in sysfs", len(files))
	}
	t.Logf("\n%s", told(r.Findings()))
}
