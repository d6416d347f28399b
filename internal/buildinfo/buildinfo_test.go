package buildinfo

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionByBuild(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	for want, c := range map[string]struct {
		release, module string
		settings        []debug.BuildSetting
	}{
		"1.4.0":                              {"1.4.0", "v1.3.0", []debug.BuildSetting{commit}},
		"v1.3.0":                             {"", "v1.3.0", []debug.BuildSetting{commit}},
		"v1.3.0-rc1":                         {"", "v1.3.0-rc1", nil},
		"devel-0123456789ab":                 {"", "v1.3.1-0.20260102030405-0123456789ab+dirty", []debug.BuildSetting{commit}},
		"v0.0.0-20260102030405-0123456789ab": {"", "v0.0.0-20260102030405-0123456789ab", nil},
		"devel":                              {"", "(devel)", nil},
	} {
		r := Report{Version: "devel"}
		if c.release != "" {
			r.Version = c.release
		}
		info := &debug.BuildInfo{Settings: c.settings}
		info.Main.Version = c.module
		r.add(c.release, info)
		if r.Version != want {
			t.Errorf("%+v: %s, want %s", c, r.Version, want)
		}
	}
}

func TestPrint(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "libx.so.1.14.44.0")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "libx.so.1")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	r := Read("")
	r.Libraries = []Library{LibraryAt("libx", link, nil), LibraryAt("liby", "", errors.New("gone"))}
	var out strings.Builder
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1.14.44.0, " + link, "not here: gone", "linux/", "kernel"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}
