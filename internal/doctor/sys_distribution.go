package doctor

import (
	"slices"
	"strings"
)

// distribution is a family of them, as far as commands differ.
type distribution uint8

const (
	otherDistribution distribution = iota
	debianLike                     // apt-get, update-grub
	rhelLike                       // dnf, grubby: Fedora, RHEL and its rebuilds, Amazon Linux
)

// distribution tells the machine's by /etc/os-release.
func (s *System) distribution() distribution {
	text, _ := s.text("etc/os-release")
	return parseDistribution(text)
}

func parseDistribution(osRelease string) distribution {
	var ids []string
	for line := range strings.Lines(osRelease) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key == "ID" || key == "ID_LIKE" {
			ids = append(ids, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	is := func(names ...string) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(names, id) })
	}
	switch {
	case is("debian", "ubuntu"):
		return debianLike
	case is("rhel", "fedora", "centos", "amzn"):
		return rhelLike
	}
	return otherDistribution
}

const installVerbsWords = "install rdma-core with its providers: Debian and Ubuntu libibverbs1 and ibverbs-providers, Fedora's kin and Amazon Linux 2023 libibverbs"

// installVerbs is what installs libibverbs, its providers and librdmacm; nothing
// where the names of packages are not known. Debian and Ubuntu call one of them
// librdmacm1t64 by now, and apt-get takes it by the older name, which it provides.
func (s *System) installVerbs() []string {
	switch s.distribution() {
	case debianLike:
		return []string{"apt-get install -y libibverbs1 ibverbs-providers librdmacm1"}
	case rhelLike:
		return []string{"dnf install -y libibverbs librdmacm"}
	}
	return nil
}

// bootWith is what adds a word to the kernel's command line from the next start on.
func (s *System) bootWith(option, file string) []string {
	switch s.distribution() {
	case debianLike:
		at := quote("/etc/default/grub.d/" + file + ".cfg")
		return []string{"mkdir -p /etc/default/grub.d",
			"echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX " + option + "\"' >" + at, "update-grub"}
	case rhelLike:
		return []string{"grubby --update-kernel=ALL --args=" + quote(option)}
	}
	return nil
}
