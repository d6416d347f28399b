package pci

import (
	"errors"
	"strings"
	"testing"
)

const overridden = `
root 0000:00
  00:01.0 gpu
  00:02.0 gpu
  00:03.0 nic rdma=mlx5_0
  00:04.0 nic rdma=mlx5_1
  00:04.1 nic rdma=mlx5_2 pf=00:04.0
  00:05.0 eth net=eth0
  00:06.0 eth net=eth0
  00:07.0 bridge`

func TestOverrides(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"none", "# nothing\n\n", "GPU0 PHB: mlx5_0\nGPU1 PHB: mlx5_1\n" +
			"mlx5_2: a virtual function of mlx5_1, whose port it would share\neth0: a NIC without an RDMA device\neth0: a NIC without an RDMA device\n"},
		{"the rails of one; the others share the rest", "GPU1 = mlx5_0 # as measured\n", "GPU0 PHB: mlx5_1\nGPU1 PHB: mlx5_0\n" +
			"mlx5_2: a virtual function of mlx5_1, whose port it would share\neth0: a NIC without an RDMA device\neth0: a NIC without an RDMA device\n"},
		{"by address, two rails in any order, none for the other", "00:01.0=0000:00:04.0,mlx5_0\r\nGPU1 =\nignore = mlx5_2 00:05.0, 00:06.0", "GPU0 PHB: mlx5_0 mlx5_1\nGPU1 unknown:\n" +
			"mlx5_2: left out by the overrides, line 3\neth0: left out by the overrides, line 3\neth0: left out by the overrides, line 3\n"},
		{"one rail for both", "GPU0 = mlx5_1\nGPU1 = mlx5_1\n", "GPU0 PHB: mlx5_1\nGPU1 PHB: mlx5_1\nfree: mlx5_0\n" +
			"mlx5_2: a virtual function of mlx5_1, whose port it would share\neth0: a NIC without an RDMA device\neth0: a NIC without an RDMA device\n"},
		{"a virtual function and another NIC too, an accelerator not", "also = mlx5_2, 00:05.0\nignore = GPU1", "GPU0 PHB: mlx5_0 mlx5_1 mlx5_2 eth0\n" +
			"GPU1: left out by the overrides, line 2\neth0: a NIC without an RDMA device\n"},
		{"a virtual function instead of the physical one", "ignore = mlx5_1", "GPU0 PHB: mlx5_0\nGPU1 PHB: mlx5_2\n" +
			"mlx5_1: left out by the overrides, line 1\neth0: a NIC without an RDMA device\neth0: a NIC without an RDMA device\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := ParseOverrides(strings.NewReader(c.file))
			if err != nil {
				t.Fatal(err)
			}
			topo := sketch(t, overridden)
			p, err := topo.Pair(PairOptions{Overrides: o})
			if err != nil {
				t.Fatal(err)
			}
			if got := spelled(topo, p); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
	o, _ := ParseOverrides(strings.NewReader("\nGPU0 = mlx5_0\n"))
	topo := sketch(t, overridden)
	p, err := topo.Pair(PairOptions{Overrides: o})
	if err != nil || p.Pairs[0].Reason != "as the overrides say, line 2" {
		t.Errorf("%v, %q", err, p.Pairs[0].Reason)
	}
}

func TestOverridesThatCannotBeFollowed(t *testing.T) {
	for file, want := range map[string]string{
		"\nGPU0 mlx5_0":                            `overrides, line 2: "GPU0 mlx5_0" is not NAME = NAME, NAME…`,
		"= mlx5_0":                                 `overrides, line 1: "= mlx5_0" is not NAME = NAME, NAME…`,
		"GPU0 GPU1 = mlx5_0":                       `overrides, line 1: "GPU0 GPU1 = mlx5_0" is not NAME = NAME, NAME…`,
		"GPU0 = mlx5_0 = mlx5_1":                   `overrides, line 1: "GPU0 = mlx5_0 = mlx5_1" is not NAME = NAME, NAME…`,
		"ignore =":                                 "overrides, line 1: ignore names no device",
		"GPU0 = mlx5_0 mlx5_0":                     "overrides, line 1: mlx5_0 is named twice",
		"GPU0 = mlx5_0 00:03.0":                    "overrides, line 1: 0000:00:03.0 is named twice, by other names",
		"GPU7 = mlx5_0":                            "overrides, line 1: no such device: GPU7; 'peerdirect topo' lists names and addresses",
		"GPU0 = 01:00.0":                           "overrides, line 1: no such device: 01:00.0",
		"also = eth0":                              "overrides, line 1: several devices are called eth0; give the address",
		"also = GPU0":                              "overrides, line 1: GPU0 is no NIC but accelerator",
		"GPU0 = 00:07.0":                           "overrides, line 1: 0000:00:07.0 is no NIC but bridge",
		"mlx5_0 = mlx5_1":                          "overrides, line 1: mlx5_0 is no accelerator but RDMA NIC",
		"GPU0 = mlx5_0\n00:01.0 = mlx5_1":          "overrides, line 2: the rails of GPU0 are named in line 1 already",
		"GPU0 = mlx5_0\nignore = mlx5_0":           "overrides, line 1: mlx5_0 is left out by line 2",
		"ignore = GPU1\nGPU1 = mlx5_0":             "overrides, line 2: GPU1 is left out by line 1",
		strings.Repeat("x", maxOverrideLine+1):     "overrides, line 1: longer than 65536 bytes; this is no file of overrides",
		strings.Repeat("GPU0 =\n", maxOverrides+1): "overrides, line 10001: more than 10000 lines",
	} {
		o, err := ParseOverrides(strings.NewReader(file))
		if err == nil {
			_, err = sketch(t, overridden).Pair(PairOptions{Overrides: o})
		}
		var located *OverrideError
		if err == nil || err.Error() != want || !errors.As(err, &located) {
			t.Errorf("%.40q: got %v, want %s", file, err, want)
		}
	}
	_, err := ParseOverrides(strings.NewReader("GPU7 ="))
	if err != nil {
		t.Errorf("without a machine to look at: %v", err)
	}
	o, _ := ParseOverrides(strings.NewReader("GPU7 ="))
	if _, err := sketch(t, overridden).Pair(PairOptions{Overrides: o}); !errors.Is(err, ErrNoSuchDevice) {
		t.Errorf("%v is not ErrNoSuchDevice", err)
	}
}

func FuzzOverrides(f *testing.F) {
	for _, seed := range []string{"", "GPU0 = mlx5_0, 00:04.0\n", "ignore = mlx5_1\nalso=eth0 # x", "GPU0=\nGPU0=", "\x00=\xff", "also = mlx5_2\nGPU1 = mlx5_2"} {
		f.Add(seed)
	}
	topo := sketch(f, overridden)
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOverrides(strings.NewReader(text))
		if err != nil {
			return
		}
		p, err := topo.Pair(PairOptions{Overrides: o})
		if err != nil {
			return
		}
		rails := map[*Device]bool{}
		for _, pair := range p.Pairs {
			for _, r := range pair.Rails {
				rails[r] = true
			}
		}
		for _, i := range p.Ignored {
			if rails[i.Device] {
				t.Errorf("%s is ignored and a rail", topo.Name(i.Device))
			}
		}
		for _, d := range p.Unpaired {
			if rails[d] {
				t.Errorf("%s is free and a rail", topo.Name(d))
			}
		}
	})
}
