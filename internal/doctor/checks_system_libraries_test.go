package doctor

import (
	"encoding/binary"
	"testing"
	"testing/fstest"
)

// withCache adds a loader's cache.
func withCache(s *System, entries ...cached) *System {
	s.Root.(fstest.MapFS)["etc/ld.so.cache"] = &fstest.MapFile{Data: loaderCache(binary.LittleEndian, "", entries...), Mode: 0o644}
	return s
}

func TestInstalledLibraries(t *testing.T) {
	const (
		verbs  = "usr/lib/libibverbs.so.1 -> libibverbs.so.1.14.44.0\nusr/lib/libibverbs.so.1.14.44.0 = x"
		cuda   = "usr/lib/libcuda.so.1 -> libcuda.so.570.1\nusr/lib/libcuda.so.570.1 = x"
		amazon = "opt/amazon/efa/lib64/libfabric.so.1 -> libfabric.so.1.30\nopt/amazon/efa/lib64/libfabric.so.1.30 = x"
	)
	entry := func(name, file string) cached { return cached{name, file, 0x303} }
	ib := entry("libibverbs.so.1", "/usr/lib/libibverbs.so.1")
	for name, c := range map[string]struct {
		root  []string
		cache []cached
		want  string
	}{
		"one":                     {[]string{verbs}, []cached{ib}, "ok libibverbs.so.1: there is one|!warn|!note"},
		"one by two names":        {[]string{verbs, "lib -> usr/lib"}, []cached{ib, entry("libibverbs.so.1", "/lib/libibverbs.so.1")}, "ok libibverbs.so.1: there is one"},
		"two that the loader has": {[]string{verbs, "usr/local/lib/libibverbs.so.1 = y"}, []cached{entry("libibverbs.so.1", "/usr/local/lib/libibverbs.so.1"), ib}, "warn libibverbs.so.1: the loader knows several copies, and takes /usr/local/lib/libibverbs.so.1"},
		"of another architecture": {[]string{verbs, "usr/lib32/libibverbs.so.1 = y"}, []cached{ib, {"libibverbs.so.1", "/usr/lib32/libibverbs.so.1", 3}}, "ok libibverbs.so.1: there is one"},
		"for newer processors":    {[]string{verbs, "usr/lib/glibc-hwcaps/x86-64-v3/libibverbs.so.1 = y"}, []cached{entry("libibverbs.so.1", "/usr/lib/glibc-hwcaps/x86-64-v3/libibverbs.so.1"), ib}, "ok libibverbs.so.1: there is one"},
		"a vendor's beside":       {[]string{verbs, amazon, "usr/lib/libfabric.so.1 = x"}, []cached{ib, entry("libfabric.so.1", "/usr/lib/libfabric.so.1")}, "note libfabric.so.1: there are several copies; without LD_LIBRARY_PATH or a run path the loader takes /usr/lib/libfabric.so.1"},
		"a vendor's alone":        {[]string{verbs, amazon}, []cached{ib}, "note libfabric.so.1: the loader does not know it"},
		"a vendor's in the cache": {[]string{verbs, amazon}, []cached{ib, entry("libfabric.so.1", "/opt/amazon/efa/lib64/libfabric.so.1")}, "ok libfabric.so.1: there is one"},
		"a cache that is old":     {[]string{verbs}, []cached{ib, entry("libefa.so.1", "/usr/lib/libefa.so.1")}, "!libefa"},
		"none":                    {[]string{"etc/os-release = ID=debian"}, nil, "note libibverbs.so.1: it is not installed $ apt-get install -y libibverbs1 ibverbs-providers librdmacm1"},
		"none, with a device":     {[]string{"sys/class/infiniband/efa_0/", `etc/os-release = ID="amzn"`}, nil, "fail libibverbs.so.1: it is not installed|{unsupported} $ dnf install"},
		"NVIDIA of one release":   {[]string{verbs, cuda, "sys/module/nvidia/version = 570.1"}, []cached{ib, entry("libcuda.so.1", "/usr/lib/libcuda.so.1")}, "ok NVIDIA's driver"},
		"NVIDIA of two releases":  {[]string{verbs, cuda, "sys/module/nvidia/version = 575.2"}, []cached{ib, entry("libcuda.so.1", "/usr/lib/libcuda.so.1")}, "fail NVIDIA's driver: the module is of release 575.2, the library of 570.1|{unsupported}"},
		"NVIDIA of a Jetson":      {[]string{verbs, "usr/lib/libcuda.so.1 -> libcuda.so.1.1\nusr/lib/libcuda.so.1.1 = x", "sys/module/nvidia/version = 540.4.0"}, []cached{ib, entry("libcuda.so.1", "/usr/lib/libcuda.so.1")}, "unknown NVIDIA's driver: the library's file does not tell its release|!fail"},
		"NVIDIA of no release":    {[]string{verbs, "usr/lib/libcuda.so.1 = x", "sys/module/nvidia/version = 575.2"}, []cached{ib, entry("libcuda.so.1", "/usr/lib/libcuda.so.1")}, "unknown NVIDIA's driver"},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, told(runCheck(t, withCache(machine(t, c.root...), c.cache...), "installed-libraries")), c.want)
		})
	}
	want(t, told(runCheck(t, machine(t, verbs), "installed-libraries")), "unknown libraries: the capture does not hold /etc/ld.so.cache")
	want(t, told(runCheck(t, running(t, verbs, "etc/ld.so.cache = musl"), "installed-libraries")), "unknown libraries: /etc/ld.so.cache cannot be read")
}

func TestProcessLibraries(t *testing.T) {
	const (
		verbs  = `1-2 r-xp 0 fe:01 77 /usr/lib/libibverbs.so.1\n`
		second = `3-4 r-xp 0 fe:01 78 /opt/venv/libibverbs.so.1\n`
		gone   = `5-6 r-xp 0 fe:01 79 /usr/lib/libcuda.so.1 (deleted)\n`
		plugin = `5-6 r-xp 0 fe:01 80 /usr/lib/libibverbs/libefa-rdmav34.so\n7-8 r-xp 0 fe:01 81 /usr/lib/libefa.so.1\n`
	)
	for name, c := range map[string]struct{ maps, want string }{
		"one copy each":      {verbs + plugin, "ok process 7: of the libraries of the direct path it has loaded one copy each"},
		"two copies":         {verbs + second, "warn process 7: it has loaded more than one copy of libibverbs"},
		"a file replaced":    {verbs + gone, "warn process 7: /usr/lib/libcuda.so.1 was removed or replaced"},
		"none that matters":  {`1-2 r-xp 0 fe:01 77 /usr/lib/libc.so.6`, "note process 7: it has loaded none"},
		"a file not the map": {"", "note process 7"},
	} {
		t.Run(name, func(t *testing.T) {
			s := machine(t, "proc/7/maps = "+c.maps)
			s.PID = 7
			want(t, told(runCheck(t, s, "process-libraries")), c.want)
		})
	}
	s := machine(t, "proc/7/")
	s.PID = 7
	want(t, told(runCheck(t, s, "process-libraries")), "unknown process 7: the capture does not hold /proc/7/maps")
	if found := runCheck(t, running(t, "proc/"), "process-libraries"); len(found) != 0 {
		t.Errorf("nobody asked: %s", told(found))
	}
}
