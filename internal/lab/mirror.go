package lab

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
)

// mirrorEnv names the Debian mirror by hand, for machines that are not Debian.
const mirrorEnv = "PEERDIRECT_LAB_MIRROR"

// hostMirror gives the Debian mirror that this machine's own apt uses, so that
// a lab is built wherever packages already come from, a local mirror included.
func hostMirror(ctx context.Context) (string, error) {
	if m := os.Getenv(mirrorEnv); m != "" {
		if u, err := url.Parse(m); err != nil || u.Scheme == "" {
			return "", fmt.Errorf("%s=%q is no mirror: give a URI such as http://HOST/debian", mirrorEnv, m)
		}
		return m, nil
	}
	// apt-helper's fields: apt-get(8), indextargets.
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets",
		"--format", "$(CREATED_BY)|$(ORIGIN)|$(LABEL)|$(REPO_URI)").Output()
	if err != nil {
		return "", fmt.Errorf("asking apt for its mirror: %w; set %s to a Debian mirror's URI", err, mirrorEnv)
	}
	return parseTargets(string(out))
}

var errNoMirror = errors.New("apt's configuration names no Debian mirror: run 'apt-get update', or set " + mirrorEnv + " to a mirror's URI")

// parseTargets picks the archive of Debian itself out of apt's index targets,
// one "creator|origin|label|uri" a line. Origin and label keep third parties'
// repositories and the security archive out, neither of which holds a release.
func parseTargets(targets string) (string, error) {
	for line := range strings.Lines(targets) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 4)
		if len(f) == 4 && f[0] == "Packages" && f[1] == "Debian" && f[2] == "Debian" && f[3] != "" {
			return strings.TrimSuffix(f[3], "/"), nil
		}
	}
	return "", errNoMirror
}
