package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestMistakesNameTheRemedy: a wrong command line ends with 2, says what is wrong,
// and which help tells more.
func TestMistakesNameTheRemedy(t *testing.T) {
	const token = " --token 0123456789abcdef0"
	for args, want := range map[string]string{
		"devces":                                   "did you mean devices?",
		"trace leak":                               "did you mean leaks?",
		"devices x":                                "the form is 'peerdirect devices [flags]'",
		"topo capture":                             "the form is 'peerdirect topo capture FILE [flags]'",
		"cert --out x":                             "NAME...",
		"dmabuf show":                              "PID",
		"perf write bw a b":                        "[SERVER]",
		"perf write bw -s 0":                       "--size 0: it must be above 0",
		"perf write bw h:1:2":                      "its port goes with --port",
		"perf write bw --listen :18515":            "its port goes with --port",
		"transfer to h:99999" + token:              "up to 65535",
		"transfer to h:1:2" + token:                "HOST:PORT",
		"transfer to h --wait=-1s" + token:         "--wait -1s: it must be above 0",
		"transfer listen --listen h:99999" + token: "up to 65535",
		"transfer to -d embedded -i 2":             "a software device has one port",
		"transfer to -d embedded -x 0":             "one GID",
		"doctor --peer h:99999" + token:            "up to 65535",
		"doctor --listen=h:1:2" + token:            "HOST:PORT",
		"bench collective --rank 0 --peers :18632,h:18632" + token:  "give HOST:PORT",
		"bench collective --rank 0 --peers h:99999,h:18632" + token: "up to 65535",
		"bench collective --rounds 0":                               "--rounds 0: it must be above 0",
		"bench ladder --nics 0":                                     "--nics 0: it must be above 0",
		"bench ladder --page-size 0":                                "it must be above 0",
		"bench path --rounds 0":                                     "--rounds 0: it must be above 0",
		"bench registration --duration 0s":                          "--duration 0s: it must be above 0",
		"bench simulate --gbps=-1":                                  "--gbps -1: it must be above 0",
		"lab run --nodes 0 -- true":                                 "--nodes 0: it must be above 0",
		"lab run --cpus 0 -- true":                                  "--cpus 0: it must be above 0",
		"lab run":                                                   "COMMAND",
		"demo --nics 0":                                             "--nics 0: it must be above 0",
		"completion tcsh":                                           "bash, fish, zsh",
	} {
		stdout, stderr, code := execute(t.Context(), args)
		command := strings.SplitN(stderr, "\n", 2)
		if code != exitUsage || stdout != "" || !strings.Contains(command[0], want) || !strings.Contains(stderr, " --help' for what it takes.\n") {
			t.Errorf("%s: exit %d, want %q in\n%s%s", args, code, want, stdout, stderr)
		}
	}
}

// TestNoCommandTakesMistakes: every command without a command of its own refuses a
// flag that it does not have and, if it takes no words, a word.
func TestNoCommandTakesMistakes(t *testing.T) {
	everyCommand(newRoot(), func(cmd *cobra.Command) {
		path := strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), "peerdirect"))
		want := "Run '" + cmd.CommandPath() + " --help' for what it takes.\n"
		if _, stderr, code := execute(t.Context(), path+" --no-such-flag"); code != exitUsage || !strings.HasSuffix(stderr, want) {
			t.Errorf("%s --no-such-flag: exit %d, %s", path, code, stderr)
		}
		if strings.Contains(cmd.Use, " ") {
			return
		}
		if _, stderr, code := execute(t.Context(), path+" no-such-word"); code != exitUsage || !strings.HasSuffix(stderr, want) {
			t.Errorf("%s no-such-word: exit %d, %s", path, code, stderr)
		}
	})
}
