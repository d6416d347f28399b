package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// manager is who starts a process, and thereby gives it its limits.
type manager struct {
	kind string // "docker", "podman", "kubernetes", "container", "slurm", "service", "session", "" is unknown
	unit string // of a service: "trainer.service"
}

// manager tells it by the process's cgroup, which names who made it, or by what
// container runtimes leave in a root: in a container the cgroup is mostly "/".
func (p process) manager() manager {
	for _, c := range p.cgroups() {
		if m := managerOf(c.path); m.kind != "" {
			return m
		}
	}
	if p.folder == "proc/self" || !p.s.Live {
		return manager{kind: p.s.container()}
	}
	return manager{}
}

// managerOf reads a cgroup's path, from the innermost part out.
func managerOf(at string) manager {
	switch {
	case strings.Contains(at, "kubepods"):
		return manager{kind: "kubernetes"}
	case strings.Contains(at, "/docker/"), strings.Contains(at, "/docker-"):
		return manager{kind: "docker"}
	case strings.Contains(at, "libpod"):
		return manager{kind: "podman"}
	case strings.Contains(at, "slurmstepd"), strings.HasPrefix(at, "/slurm"):
		return manager{kind: "slurm"}
	case strings.Contains(at, "/lxc"), strings.HasPrefix(at, "/machine.slice/"), strings.Contains(at, "/cri-containerd-"), strings.Contains(at, "/crio-"):
		return manager{kind: "container"}
	}
	user := strings.HasPrefix(at, "/user.slice/")
	parts := strings.Split(at, "/")
	slices.Reverse(parts)
	for _, part := range parts {
		// Below a user's own manager are units that only it knows.
		if strings.HasSuffix(part, ".service") && fs.ValidPath(part) && (!user || strings.HasPrefix(part, "user@")) {
			return manager{"service", part}
		}
	}
	if user {
		return manager{kind: "session"}
	}
	return manager{}
}

// container tells by what runtimes leave which of them made the root; "" is none
// that is known.
func (s *System) container() string {
	for _, mark := range [][2]string{
		{"run/secrets/kubernetes.io/serviceaccount", "kubernetes"},
		{"var/run/secrets/kubernetes.io/serviceaccount", "kubernetes"},
		{"run/.containerenv", "podman"},
		{".dockerenv", "docker"},
	} {
		if _, err := fs.Stat(s.Root, mark[0]); err == nil {
			return mark[1]
		}
	}
	if environ, err := s.text("proc/1/environ"); err == nil && slices.ContainsFunc(strings.Split(environ, "\x00"),
		func(v string) bool { return strings.HasPrefix(v, "container=") }) {
		return "container"
	}
	return ""
}

// setting is a limit in the words of those who set it.
type setting struct {
	unit  string // of systemd: "LimitMEMLOCK"
	item  string // of limits.conf and --ulimit: "memlock"
	which string // of limits.conf: "soft", "-" for both
	value string // of limits.conf
	all   string // of systemd
	flag  string // of docker and podman
	live  string // of prlimit; "soft:" leaves the hard one
}

var memlockSetting = setting{"LimitMEMLOCK", "memlock", "-", "unlimited", "infinity", "--ulimit memlock=-1:-1", "unlimited:unlimited"}

// nofileSetting raises the soft limit, and the hard one where it is below that.
func nofileSetting(hard uint64) setting {
	const soft, most = 1 << 16, 1 << 20 // the kernel's own bound, fs.nr_open, where nobody changed it
	if hard == unlimited {
		hard = most
	}
	l := setting{"LimitNOFILE", "nofile", "soft", bound(soft), "", "", bound(soft) + ":"}
	if hard < soft {
		hard, l.which, l.live = soft, "-", bound(soft)+":"+bound(soft)
	}
	l.all = bound(soft) + ":" + bound(hard)
	l.flag = "--ulimit nofile=" + l.all
	return l
}

// raise tells who gives a process its limit, and how to raise it there.
func (p process) raise(l setting) (evidence []string, remedy string, commands []string) {
	m := p.manager()
	switch m.kind {
	case "docker", "podman":
		remedy = fmt.Sprintf("it is the container's: start it anew with '%s run %s …'", m.kind, l.flag)
		if m.kind == "podman" {
			remedy += " (without root, no more than its user's own hard limit)"
		}
	case "kubernetes":
		remedy = "a pod has the limits of the container runtime, and no field to set them: on the node set " + l.unit + "=" + l.all +
			" in a drop-in of containerd.service (with CRI-O: default_ulimits of crio.conf), restart it, then start the pod anew"
		if l.item == memlockSetting.item {
			remedy += "; or give the container the capability IPC_LOCK (securityContext.capabilities.add), to which the limit does not apply unless the pod has a user namespace"
		}
	case "container":
		remedy = "it is the container's: raise " + l.item + " where the container is started"
	case "slurm":
		remedy = "it is the Slurm step's: set " + l.unit + "=" + l.all + " for slurmd.service on the nodes, and PropagateResourceLimitsExcept=" +
			strings.ToUpper(l.item) + " in slurm.conf, so that the submitting shell's limit is not taken along"
	case "service":
		unit := m.unit
		remedy = fmt.Sprintf("it is the service's: set %s=%s in %s, then restart it, which ends what runs in it", l.unit, l.all, unit)
		if strings.HasPrefix(unit, "user@") {
			unit = "user@.service" // of every user: a restart would end all that one runs
			remedy = fmt.Sprintf("it is the user's own manager's: set %s=%s in %s, then end the user's sessions ('loginctl terminate-user') and log in anew", l.unit, l.all, unit)
		}
		folder := "/etc/systemd/system/" + unit + ".d"
		commands = []string{
			"mkdir -p " + quote(folder),
			fmt.Sprintf(`printf '[Service]\n%s=%s\n' >%s`, l.unit, l.all, quote(folder+"/50-"+l.item+".conf")),
			"systemctl daemon-reload", // and no restart: it would end the process that is asked about
		}
		for _, name := range slices.Compact([]string{unit, m.unit}) {
			evidence = append(evidence, p.s.settings(l.unit+"=", "etc/systemd/system/"+name, "usr/lib/systemd/system/"+name, "lib/systemd/system/"+name,
				"etc/systemd/system/"+name+".d")...)
		}
	case "session":
		remedy = "it is the login's (pam_limits): set it for every user, and for root by name, which * does not mean; then log in anew"
		file := "/etc/security/limits.d/90-" + l.item + ".conf"
		commands = []string{fmt.Sprintf(`printf '* %[1]s %[2]s %[3]s\nroot %[1]s %[2]s %[3]s\n' >%[4]s`, l.which, l.item, l.value, file)}
		evidence = p.s.settings(l.item, "etc/security/limits.conf", "etc/security/limits.d")
	default:
		remedy = "who starts the process gives it: " + l.unit + "=" + l.all + " of a systemd service, " + l.item +
			" of /etc/security/limits.d for logins, '" + l.flag + "' of docker and podman"
	}
	evidence = append(evidence, p.s.settings("Default"+l.unit+"=", "etc/systemd/system.conf", "etc/systemd/system.conf.d")...)
	if p.s.PID != 0 && p.folder != "proc/self" && p.s.Live {
		remedy += "; root can raise it of the running process"
		commands = append([]string{fmt.Sprintf("prlimit --pid %d --%s=%s", p.s.PID, l.item, l.live)}, commands...)
	}
	return evidence, remedy, commands
}

// settings finds lines about something in files and in folders of them.
func (s *System) settings(word string, places ...string) (lines []string) {
	for _, place := range places {
		files := []string{place}
		if entries, err := fs.ReadDir(s.Root, place); err == nil {
			files = nil
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), ".conf") { // no reader of these folders takes others
					files = append(files, path.Join(place, e.Name()))
				}
			}
		}
		for _, file := range files {
			text, err := s.text(file)
			if err != nil {
				continue
			}
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") && strings.Contains(line, word) {
					lines = append(lines, "/"+file+": "+line)
				}
			}
		}
	}
	return lines
}
