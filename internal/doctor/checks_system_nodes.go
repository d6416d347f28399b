package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
	"golang.org/x/sys/unix"
)

// node is a device node that there should be.
type node struct {
	name    string // below the root: "dev/infiniband/uverbs0"
	number  string // file that has its numbers, "231:192"; "" is none
	what    string // what it is for
	verdict Verdict
	// open it, which does nothing to the device, instead of asking whether it may be
	// opened: only that finds a node behind which there is nothing.
	open bool
}

// deviceNodes looks whether the nodes that programs open are there, and whether who
// asks may open them.
func deviceNodes(_ context.Context, s *System) (all []Finding) {
	if there, known := s.exists("dev"); !known || !there {
		f := s.missing("device nodes", "dev", fs.ErrNotExist)
		return []Finding{f}
	}
	nodes := s.nodes()
	given := map[string]bool{} // kinds of which some node is there
	for _, n := range nodes {
		f := s.node(n)
		if there, _ := s.exists(n.name); there {
			given[n.kind()] = true
		}
		all = append(all, f)
	}
	for i, n := range nodes {
		// /sys shows a container all devices of the host, those of others too.
		if there, known := s.exists(n.name); known && !there && given[n.kind()] && len(s.Devices) == 0 {
			f := &all[i]
			f.Verdict, f.Cause, f.Remedy, f.Commands = Note, CauseOther, "", nil
			f.Summary = "it is not there, while others of its kind are, as in a container that is given some: " + n.what
		}
	}
	return all
}

// kind is what a node's name has before its number: nodes of one kind are given to
// containers one by one. Those without a number are one of a kind.
func (n node) kind() string { return strings.TrimRight(n.name, "0123456789") }

// nodes are those that the kernel's classes and the accelerators' drivers name.
func (s *System) nodes() (all []node) {
	class := func(folder, prefix string, each func(name, at string)) {
		entries, _ := fs.ReadDir(s.Root, "sys/class/"+folder)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), prefix) {
				each(e.Name(), "sys/class/"+folder+"/"+e.Name())
			}
		}
	}
	class("infiniband_verbs", "uverbs", func(name, at string) {
		device, _ := s.text(at + "/ibdev")
		if device == "" || len(s.Devices) == 0 || slices.Contains(s.Devices, device) {
			all = append(all, node{"dev/infiniband/" + name, at + "/dev", "programs open RDMA device " + device + " through it", Fail, true})
		}
	})
	class("misc", "rdma_cm", func(name, at string) {
		all = append(all, node{"dev/infiniband/" + name, at + "/dev", "programs connect by rdma_cm through it", Warn, true})
	})
	drivers := map[string]int{}
	for _, d := range s.devices(pci.Accelerator) {
		drivers[d.Driver]++
	}
	if drivers["nvidia"] > 0 {
		for _, name := range []string{"nvidiactl", "nvidia-uvm"} {
			all = append(all, node{"dev/" + name, "", "CUDA opens it", Warn, false})
		}
		entries, _ := fs.ReadDir(s.Root, "proc/driver/nvidia/gpus")
		for _, e := range entries {
			text, err := s.text(path.Join("proc/driver/nvidia/gpus", e.Name(), "information"))
			if minor, ok := minorOf(text); err == nil && ok {
				all = append(all, node{"dev/nvidia" + minor, "", "CUDA opens GPU " + e.Name() + " through it", Warn, false})
			}
		}
	}
	if drivers["amdgpu"] > 0 {
		class("kfd", "kfd", func(name, at string) {
			all = append(all, node{"dev/" + name, at + "/dev", "ROCm opens it", Warn, false})
		})
	}
	if drivers["amdgpu"]+drivers["i915"]+drivers["xe"] > 0 {
		class("drm", "renderD", func(name, at string) {
			all = append(all, node{"dev/dri/" + name, at + "/dev", "programs open an accelerator through it", Warn, false})
		})
	}
	class("accel", "accel", func(name, at string) {
		all = append(all, node{"dev/accel/" + name, at + "/dev", "programs open an accelerator through it", Warn, false})
	})
	class("misc", "udmabuf", func(name, at string) {
		all = append(all, node{"dev/" + name, at + "/dev", "it makes dma-bufs of host memory, by which imports are tried", Note, false})
	})
	class("dma_heap", "", func(name, at string) {
		all = append(all, node{"dev/dma_heap/" + name, at + "/dev", "it makes dma-bufs of host memory", Note, false})
	})
	class("misc", "vfio", func(name, at string) {
		if slices.ContainsFunc(s.devices(pci.RDMANIC), func(d *pci.Device) bool { return d.Driver == "vfio-pci" }) {
			all = append(all, node{"dev/vfio/vfio", at + "/dev", "programs take devices of vfio-pci through it", Note, false})
		}
	})
	return all
}

// minorOf finds "Device Minor: 0" in what NVIDIA's driver tells of a GPU.
func minorOf(information string) (string, bool) {
	for line := range strings.Lines(information) {
		if value, ok := strings.CutPrefix(line, "Device Minor:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 16)
			return strconv.FormatUint(n, 10), err == nil
		}
	}
	return "", false
}

// node judges one. Of a capture only whether it is there can be told.
func (s *System) node(n node) Finding {
	f := Finding{Subject: "/" + n.name, Summary: "it is there: " + n.what}
	info, err := fs.Stat(s.Root, n.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Verdict, f.Summary = n.verdict, "it is not there: "+n.what
		f.Evidence = []string{"/" + n.name + ": it does not exist"}
		if n.number != "" {
			if number, err := s.text(n.number); err == nil {
				f.Evidence = append(f.Evidence, "/"+n.number+": "+number+", so the device is")
			}
		}
		f.Remedy = "let udev make it: 'udevadm trigger' if it was not running when the device appeared"
		if s.container() != "" {
			f.Remedy = "give it to the container: --device=/" + path.Dir(n.name) + " of docker and podman, a device plugin of Kubernetes"
			if path.Dir(n.name) == "dev" {
				f.Remedy = "give it to the container: --device=/" + n.name + " of docker and podman, a device plugin of Kubernetes"
			}
		} else if strings.HasPrefix(n.name, "dev/nvidia") {
			f.Remedy = "let NVIDIA's tool make it"
			f.Commands = []string{nvidiaNode(n.name)}
		}
	case err != nil:
		f.Verdict, f.Summary, f.Evidence = Unknown, "it cannot be looked at", []string{why(n.name, err)}
	case info.Mode()&fs.ModeCharDevice == 0 && s.Live:
		f.Verdict, f.Summary = n.verdict, fmt.Sprintf("it is no device node: %s", n.what)
		f.Evidence = []string{fmt.Sprintf("/%s: %v", n.name, info.Mode())}
		f.Remedy = "remove it, and let udev make the node"
	case s.Live:
		s.tryNode(n, &f)
	}
	if f.Verdict == Fail {
		f.Cause = CausePermission
	}
	return f
}

// nvidiaNode is the command that makes one of NVIDIA's nodes: -c takes the minor
// number, which of nvidiactl is 255, and with -u is about nvidia-uvm's.
func nvidiaNode(name string) string {
	switch number := strings.TrimPrefix(name, "dev/nvidia"); number {
	case "ctl":
		return "nvidia-modprobe -c 255"
	case "-uvm":
		return "nvidia-modprobe -u -c 0"
	default:
		return "nvidia-modprobe -c " + number
	}
}

// tryNode finds whether who asks may open a node of the running machine.
func (s *System) tryNode(n node, f *Finding) {
	name := "/" + n.name
	err := unix.Faccessat(unix.AT_FDCWD, name, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
	allowed := err == nil // by the node's mode and the control group
	if allowed && n.open {
		var fd int
		if fd, err = unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err == nil {
			unix.Close(fd)
		}
	}
	var st unix.Stat_t
	if unix.Stat(name, &st) == nil {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s: mode %04o, user %d, group %s, device %d:%d", name, st.Mode&0o7777, st.Uid, s.group(st.Gid), unix.Major(st.Rdev), unix.Minor(st.Rdev)))
		if number, failed := s.text(n.number); n.number != "" && failed == nil && number != fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)) {
			f.Verdict, f.Summary = n.verdict, "its numbers are not the device's: it was made for another one, and "+n.what
			f.Evidence = append(f.Evidence, "/"+n.number+": "+number)
			f.Remedy = "remove the node and let udev make it; in a container start that anew"
			return
		}
	}
	if err == nil {
		f.Summary = "it may be opened: " + n.what
		return
	}
	f.Verdict, f.Summary = n.verdict, fmt.Sprintf("it cannot be opened (%v): %s", err, n.what)
	switch {
	case errors.Is(err, unix.EPERM) && allowed:
		f.Remedy = "the device is another network namespace's (rdma system in exclusive mode): 'rdma dev set DEVICE netns NAME' from where it is"
	case errors.Is(err, unix.EPERM):
		f.Remedy = "a control group's rules for devices forbid it, as a container's or a service's do: --device=" + name + " of docker and podman, a device plugin of Kubernetes, DeviceAllow=" + name + " rw of a systemd service"
	case errors.Is(err, unix.EACCES) && st.Mode&0o060 == 0o060 && st.Gid != 0:
		f.Remedy = "be of group " + s.group(st.Gid) + ", and log in anew; or run as root"
		f.Commands = []string{"usermod -aG " + quote(s.group(st.Gid)) + ` "${SUDO_USER:-$USER}"`}
	case errors.Is(err, unix.EACCES) && strings.HasPrefix(n.name, "dev/infiniband/"):
		f.Remedy = "the kernel gives it mode 0666; a rule of udev, or somebody, took that away: give it back (until the node is made anew), or run as root"
		f.Commands = []string{"chmod 0666 " + quote(name)}
	case errors.Is(err, unix.EACCES):
		f.Remedy = "run as root, or have a rule of udev give it to a group of yours"
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EIO):
		f.Remedy = "there is no device behind it, or one that failed: see the kernel's log ('dmesg'); in exclusive mode it may be another network namespace's"
	}
}

// group is the name of a group, or its number.
func (s *System) group(id uint32) string {
	text, _ := s.text("etc/group")
	number := strconv.FormatUint(uint64(id), 10)
	for line := range strings.Lines(text) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) >= 3 && f[2] == number {
			return f[0]
		}
	}
	return number
}
