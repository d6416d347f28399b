package doctor

import (
	"fmt"
	"strings"
	"testing"
)

func lines(s []string) string { return strings.Join(s, "\n") }

// ofProcess gives the lines of process 7: its memlock limit, its capabilities, its
// control group, its user namespace.
func ofProcess(memlock string, caps uint64, cgroup, user string) string {
	return strings.Join([]string{
		"proc/7/comm = trainer",
		`proc/7/limits = Limit                     Soft Limit           Hard Limit           Units     \n` +
			`Max open files            1024                 524288               files     \n` +
			`Max locked memory         ` + memlock + `               bytes     `,
		fmt.Sprintf(`proc/7/status = Name: trainer\nCapEff:\t%016x`, caps),
		"proc/7/cgroup = 0::" + cgroup,
		"proc/7/ns/user -> " + user,
		"proc/meminfo = MemTotal:       16777216 kB",
	}, "\n")
}

func TestMemlock(t *testing.T) {
	const ipc, other = 1 << capIPCLock, "user:[4026532100]"
	for name, c := range map[string]struct {
		process string
		root    []string
		want    string
		remedy  string
	}{
		"unlimited":                    {ofProcess("unlimited  unlimited", 0, "/", firstUserNamespace), nil, "ok process 7 (trainer): any amount", ""},
		"more than there is":           {ofProcess("17179869184  17179869184", 0, "/", firstUserNamespace), nil, "ok process 7 (trainer): as much", ""},
		"none":                         {ofProcess("0  0", 0, "/", firstUserNamespace), nil, "fail process 7 (trainer): no memory may be pinned (memlock 0)|{permission}", "LimitMEMLOCK=infinity of a systemd service"},
		"none, but CAP_IPC_LOCK":       {ofProcess("0  0", ipc, "/", firstUserNamespace), nil, "ok process 7 (trainer): CAP_IPC_LOCK is in effect", ""},
		"CAP_IPC_LOCK of a namespace":  {ofProcess("0  0", ipc, "/", other), nil, "fail process 7", ""},
		"little":                       {ofProcess("8388608  8388608", 0, "/", firstUserNamespace), nil, "warn process 7 (trainer): 8 MiB of host memory", ""},
		"enough for most":              {ofProcess("8589934592  8589934592", 0, "/", firstUserNamespace), nil, "note process 7 (trainer): 8 GiB of host memory", ""},
		"a service's":                  {ofProcess("65536  65536", 0, "/system.slice/trainer.service", other), []string{"etc/systemd/system/trainer.service = [Service]\\nLimitMEMLOCK=64K"}, "warn|$ mkdir -p /etc/systemd/system/trainer.service.d|LimitMEMLOCK=infinity\\n|$ systemctl daemon-reload\n|!systemctl restart", "the service's"},
		"a login's":                    {ofProcess("65536  65536", 0, "/user.slice/user-1000.slice/session-3.scope", other), []string{"etc/security/limits.conf = * hard memlock 64"}, "warn|/etc/security/limits.d/90-memlock.conf", "log in anew"},
		"a user's own manager's":       {ofProcess("65536  65536", 0, "/user.slice/user-1000.slice/user@1000.service/app.slice/trainer.service", other), nil, "warn|$ mkdir -p /etc/systemd/system/user@.service.d|!trainer.service|!restart|!user@1000", "user@.service|log in anew"},
		"docker's own daemon's":        {ofProcess("65536  65536", 0, "/system.slice/docker.service", other), nil, "warn|docker.service.d", "the service's"},
		"docker's":                     {ofProcess("65536  65536", 0, "/system.slice/docker-0123.scope", other), nil, "warn|!$", "docker run --ulimit memlock=-1:-1"},
		"docker's, of the older kind":  {ofProcess("65536  65536", 0, "/docker/0123", other), nil, "warn", "docker run --ulimit memlock=-1:-1"},
		"podman's":                     {ofProcess("65536  65536", 0, "/machine.slice/libpod-0123.scope", other), nil, "warn", "podman run --ulimit memlock=-1:-1"},
		"a pod's":                      {ofProcess("0  0", 0, "/kubepods.slice/kubepods-burstable.slice/cri-containerd-01.scope", other), nil, "fail", "containerd.service"},
		"Slurm's":                      {ofProcess("0  0", 0, "/system.slice/slurmstepd.scope/job_1/step_0", other), nil, "fail", "PropagateResourceLimitsExcept=MEMLOCK"},
		"a container's, from inside":   {ofProcess("0  0", 0, "/", other), []string{"run/secrets/kubernetes.io/serviceaccount/"}, "fail", "IPC_LOCK"},
		"podman's, from inside":        {ofProcess("0  0", 0, "/", other), []string{"run/.containerenv = "}, "fail", "podman run"},
		"some container's":             {ofProcess("0  0", 0, "/", other), []string{"proc/1/environ = PATH=/bin\x00container=lxc\x00"}, "fail", "where the container is started"},
		"the namespace is not told":    {strings.ReplaceAll(ofProcess("0  0", ipc, "/", "x"), "proc/7/ns/user -> x", ""), nil, "unknown process 7 (trainer): whether its CAP_IPC_LOCK lifts the limit", "run as root"},
		"nor asked":                    {strings.ReplaceAll(ofProcess("0  0", 0, "/", "x"), "proc/7/ns/user -> x", ""), nil, "fail", ""},
		"the namespace by its users":   {strings.ReplaceAll(ofProcess("0  0", ipc, "/", "x"), "proc/7/ns/user -> x", "proc/7/uid_map =          0          0 4294967295"), nil, "ok process 7 (trainer): CAP_IPC_LOCK is in effect", ""},
		"another by its users":         {strings.ReplaceAll(ofProcess("0  0", ipc, "/", "x"), "proc/7/ns/user -> x", "proc/7/uid_map =          0     100000      65536"), nil, "unknown process 7", ""},
		"the limits are not told":      {"proc/7/comm = x", nil, "unknown process 7 (x): the capture does not hold /proc/7/limits", ""},
		"the limits have another form": {"proc/7/comm = x\nproc/7/limits = nonsense", nil, "unknown process 7 (x): /proc/7/limits cannot be read", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := machine(t, append(c.root, c.process)...)
			s.PID = 7
			found := runCheck(t, s, "memlock")
			want(t, told(found), c.want)
			if len(found) == 1 {
				want(t, found[0].Remedy, c.remedy)
			}
		})
	}
	if found := runCheck(t, machine(t, ofProcess("0 0", 0, "/", "")), "memlock"); len(found) != 0 {
		t.Errorf("of a capture, without a process: %s", told(found))
	}
}

// Who set a limit is told by the line that did.
func TestMemlockTellsWhere(t *testing.T) {
	s := machine(t, ofProcess("65536  65536", 0, "/system.slice/trainer.service/sub", ""), "usr/lib/systemd/system/trainer.service = #LimitMEMLOCK=1\\nLimitMEMLOCK=64K",
		"etc/systemd/system/trainer.service.d/a.conf = LimitMEMLOCK=32K", "etc/systemd/system/trainer.service.d/a.conf.old = LimitMEMLOCK=16K", "etc/systemd/system.conf = DefaultLimitMEMLOCK=8M")
	s.PID = 7
	want(t, lines(runCheck(t, s, "memlock")[0].Evidence), "/usr/lib/systemd/system/trainer.service: LimitMEMLOCK=64K|/etc/systemd/system/trainer.service.d/a.conf: LimitMEMLOCK=32K|"+
		"/etc/systemd/system.conf: DefaultLimitMEMLOCK=8M|!#|!16K")
}

// The limit of a running process can be raised while it runs.
func TestMemlockOfARunningProcess(t *testing.T) {
	self := strings.ReplaceAll(ofProcess("8388608  unlimited", 0, "/", firstUserNamespace), "proc/7/", "proc/self/")
	s := running(t, ofProcess("0  0", 0, "/system.slice/x.service", firstUserNamespace), self)
	s.PID = 7
	found := runCheck(t, s, "memlock")
	if len(found) != 2 || found[0].Subject != "this process" || found[1].Commands[0] != "prlimit --pid 7 --memlock=unlimited:unlimited" || strings.Contains(lines(found[1].Commands), "restart") {
		t.Errorf("%+v", found)
	}
	want(t, found[0].Remedy, "ulimit -l unlimited")
}

// What raises the soft limit of open files leaves a hard one that is higher.
func TestNofileLeavesTheHardLimit(t *testing.T) {
	for name, c := range map[string]struct{ hard, cgroup, want string }{
		"a service":                {"1048576", "/system.slice/trainer.service", "$ prlimit --pid 7 --nofile=65536: $|LimitNOFILE=65536:1048576\\n"},
		"a service with a low one": {"4096   ", "/system.slice/trainer.service", "$ prlimit --pid 7 --nofile=65536:65536 $|LimitNOFILE=65536:65536\\n"},
		"a login":                  {"524288 ", "/user.slice/user-1000.slice/session-3.scope", `printf '* soft nofile 65536\nroot soft nofile 65536\n' >`},
		"a login with a low one":   {"4096   ", "/user.slice/user-1000.slice/session-3.scope", `printf '* - nofile 65536\nroot - nofile 65536\n' >`},
		"no hard limit":            {"unlimited", "/system.slice/trainer.service", "LimitNOFILE=65536:1048576\\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(t, strings.ReplaceAll(ofProcess("0  0", 0, c.cgroup, ""), "1024                 524288 ", "256                  "+c.hard+" "),
				strings.ReplaceAll(ofProcess("0  0", 0, "/", ""), "proc/7/", "proc/self/"))
			s.PID = 7
			want(t, told(runCheck(t, s, "nofile")), "warn process 7 (trainer): only 256 files|"+c.want)
		})
	}
}

func TestNofileAndCapabilities(t *testing.T) {
	s := machine(t, ofProcess("0  0", 1<<capIPCLock|1<<capBPF, "/", "user:[1]"))
	s.PID = 7
	want(t, told(runCheck(t, s, "nofile")), "ok process 7 (trainer): 1024 files may be open")
	want(t, told(runCheck(t, s, "capabilities")), "note process 7 (trainer): capabilities: IPC_LOCK, BPF; without NET_RAW, NET_ADMIN|of a user namespace only")
	s = machine(t, strings.ReplaceAll(ofProcess("0  0", ^uint64(0), "/", firstUserNamespace), "1024  ", "256   "))
	s.PID = 7
	want(t, told(runCheck(t, s, "nofile")), "warn process 7 (trainer): only 256 files")
	want(t, told(runCheck(t, s, "capabilities")), "ok process 7|!without")
	s = machine(t, "proc/7/")
	s.PID = 7
	want(t, told(runCheck(t, s, "nofile"))+told(runCheck(t, s, "capabilities")), "/proc/7/limits|/proc/7/status|!ok")
}

func TestControlGroups(t *testing.T) {
	const two, one = "proc/7/cgroup = 0::/a/b", `proc/7/cgroup = 5:rdma:/r\n4:memory:/m\n0::/`
	for name, c := range map[string]struct {
		check string
		root  []string
		want  string
	}{
		"no bound":                 {"cgroup-memory", []string{two, "sys/fs/cgroup/a/b/memory.max = max"}, "ok process 7: no control group bounds its memory"},
		"a bound above":            {"cgroup-memory", []string{two, "sys/fs/cgroup/a/memory.max = 1073741824", "sys/fs/cgroup/a/memory.current = 4096"}, "note process 7: its control group has 1 GiB"},
		"the least of two":         {"cgroup-memory", []string{two, "sys/fs/cgroup/a/memory.max = 1073741824", "sys/fs/cgroup/a/b/memory.max = 2147483648"}, "has 1 GiB"},
		"nearly full":              {"cgroup-memory", []string{two, "sys/fs/cgroup/a/b/memory.max = 1073741824", "sys/fs/cgroup/a/b/memory.current = 1073000000"}, "warn process 7: its control group uses"},
		"full of page cache":       {"cgroup-memory", []string{two, "sys/fs/cgroup/a/b/memory.max = 1073741824", "sys/fs/cgroup/a/b/memory.current = 1073000000", `sys/fs/cgroup/a/b/memory.stat = anon 1\nfile 900000000\ninactive_file 500000000\nactive_file 300000000`}, "note process 7: its control group has 1 GiB|!warn"},
		"with little page cache":   {"cgroup-memory", []string{two, "sys/fs/cgroup/a/b/memory.max = 1073741824", "sys/fs/cgroup/a/b/memory.current = 1073741824", `sys/fs/cgroup/a/b/memory.stat = inactive_file 1048576\nactive_file 1048576`}, "warn process 7: its control group uses 1 GiB of 1 GiB of memory, of which 2 MiB of page cache"},
		"version 1, of page cache": {"cgroup-memory", []string{one, "sys/fs/cgroup/memory/m/memory.limit_in_bytes = 1048576", "sys/fs/cgroup/memory/m/memory.usage_in_bytes = 1048576", `sys/fs/cgroup/memory/m/memory.stat = inactive_file 0\ntotal_inactive_file 524288\ntotal_active_file 524288`}, "note process 7|!warn"},
		"version 1":                {"cgroup-memory", []string{one, "sys/fs/cgroup/memory/m/memory.limit_in_bytes = 1048576", "sys/fs/cgroup/memory/m/memory.usage_in_bytes = 1048576"}, "warn process 7|1 MiB"},
		"version 1, no bound":      {"cgroup-memory", []string{one, "sys/fs/cgroup/memory/m/memory.limit_in_bytes = 9223372036854771712"}, "ok process 7"},
		"no RDMA bound":            {"cgroup-rdma", []string{two, "sys/fs/cgroup/a/rdma.max = mlx5_0 hca_handle=max hca_object=max"}, "ok process 7: no control group bounds its RDMA"},
		"an RDMA bound":            {"cgroup-rdma", []string{two, "sys/fs/cgroup/a/rdma.max = mlx5_0 hca_handle=2 hca_object=2000", "sys/fs/cgroup/a/rdma.current = mlx5_0 hca_handle=1 hca_object=20"}, "note process 7: its control group bounds mlx5_0 to 2 contexts and 2000 objects"},
		"a full RDMA bound":        {"cgroup-rdma", []string{two, "sys/fs/cgroup/a/rdma.max = mlx5_0 hca_handle=2 hca_object=max", "sys/fs/cgroup/a/rdma.current = mlx5_0 hca_handle=2 hca_object=20"}, "fail process 7|{permission}|$ echo 'mlx5_0 hca_handle=max hca_object=max' >/sys/fs/cgroup/a/rdma.max"},
		"an RDMA bound of nothing": {"cgroup-rdma", []string{one, "sys/fs/cgroup/rdma/r/rdma.max = mlx5_0 hca_handle=0 hca_object=0"}, "fail process 7"},
		"of a device not asked":    {"cgroup-rdma", []string{two, "sys/fs/cgroup/a/rdma.max = other hca_handle=0 hca_object=0"}, "ok process 7"},
		"no control group":         {"cgroup-rdma", nil, "!process"},
	} {
		t.Run(name, func(t *testing.T) {
			s := machine(t, append(c.root, "proc/7/stat = x")...)
			s.PID, s.Devices = 7, []string{"mlx5_0"}
			want(t, told(runCheck(t, s, c.check)), c.want)
		})
	}
}
