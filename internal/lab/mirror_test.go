package lab

import (
	"errors"
	"testing"
)

func TestParseTargets(t *testing.T) {
	const uri = "http://mirror.example/debian"
	for name, c := range map[string]struct {
		targets, want string
		err           error
	}{
		"debian": {targets: "Packages|Debian|Debian|" + uri + "/\n", want: uri},
		"third parties first": {
			targets: "Packages|. nodistro|. nodistro|http://other.example/\n" +
				"Packages|Debian|Debian-Security|http://mirror.example/debian-security/\n" +
				"DEP-11|Debian|Debian|http://wrong.example/\n" +
				"Packages|Debian|Debian|" + uri + "/\n",
			want: uri,
		},
		"never updated": {targets: "Packages|$(ORIGIN)|$(LABEL)|" + uri + "/\n", err: errNoMirror},
		"derivative":    {targets: "Packages|Ubuntu|Ubuntu|http://mirror.example/ubuntu/\n", err: errNoMirror},
		"nothing":       {err: errNoMirror},
		"garbage":       {targets: "||\n|||\x00\nPackages|Debian|Debian|\n", err: errNoMirror},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseTargets(c.targets)
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %q, %v; want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestHostMirrorByHand(t *testing.T) {
	t.Setenv(mirrorEnv, "http://mirror.example/debian")
	if got, err := hostMirror(t.Context()); err != nil || got != "http://mirror.example/debian" {
		t.Errorf("got %q, %v", got, err)
	}
	t.Setenv(mirrorEnv, "no uri")
	if got, err := hostMirror(t.Context()); err == nil {
		t.Errorf("%q was taken for a mirror", got)
	}
}
