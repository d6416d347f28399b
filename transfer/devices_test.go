package transfer

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/peerdirect/peerdirect/verbs"
)

// machine is the sysfs of one with these devices, by name and PCI vendor.
func machine(devices map[string]string) fstest.MapFS {
	root := fstest.MapFS{"sys/kernel": {Mode: 0o755}}
	for name, vendor := range devices {
		root["sys/class/infiniband/"+name+"/node_type"] = &fstest.MapFile{Data: []byte("1: CA\n")}
		if vendor != "" {
			root["sys/class/infiniband/"+name+"/device/vendor"] = &fstest.MapFile{Data: []byte(vendor + "\n")}
		}
	}
	return root
}

func TestDevicesByName(t *testing.T) {
	mixed := machine(map[string]string{"efa_10": "0x1d0f", "efa_2": "0x1d0f", "efa_0": "0x1d0f", "mlx5_0": "0x15b3", "rxe0": ""})
	for _, c := range []struct {
		what  string
		root  fstest.MapFS
		names string
		want  string
		err   error
	}{
		{"all EFA devices", mixed, "efa", "efa efa_0 efa_2 efa_10", nil},
		{"one", mixed, "efa_2", "efa efa_2", nil},
		{"one that is none", mixed, "rxe0", "rc rxe0", nil},
		{"two", mixed, "mlx5_0,rxe0", "rc mlx5_0 rxe0", nil},
		{"one that is unknown", mixed, "nosuch0", "rc nosuch0", nil}, // opening it says so
		{"none of several", mixed, "", "rc ", nil},
		{"the only one", machine(map[string]string{"efa_0": "0x1d0f"}), "", "efa efa_0", nil},
		{"the only one of another kind", machine(map[string]string{"rxe0": ""}), "", "rc ", nil},
		{"EFA where there is none", machine(map[string]string{"rxe0": ""}), "efa", "", verbs.ErrNoDevice},
		{"two kinds", mixed, "efa_0,rxe0", "", new(OptionError)},
		{"one twice", mixed, "rxe0,rxe0", "", new(OptionError)},
		{"an empty name", mixed, "rxe0,", "", new(OptionError)},
	} {
		got := ""
		o, err := namedIn(c.root, c.names, RCOptions{})
		if err == nil {
			got = string(o.Kind())
			nics, several := o.(NICs)
			if !several {
				nics = NICs{o}
			}
			for _, n := range nics {
				switch n := n.(type) {
				case RCOptions:
					got += " " + n.Device
				case EFAOptions:
					got += " " + n.Device
				}
			}
		}
		var option *OptionError
		if got != c.want || (err == nil) != (c.err == nil) || errors.As(c.err, &option) != errors.As(err, &option) ||
			errors.Is(c.err, verbs.ErrNoDevice) != errors.Is(err, verbs.ErrNoDevice) {
			t.Errorf("%s: %q gives %q, %v; want %q, %v", c.what, c.names, got, err, c.want, c.err)
		}
	}
	for _, c := range []struct {
		root fstest.MapFS
		want bool
	}{{mixed, true}, {machine(nil), false}} {
		if got := HasDevices(c.root); got != c.want {
			t.Errorf("a machine with devices (%v) has them: %v", c.want, got)
		}
	}
}
