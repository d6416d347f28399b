//go:build lab

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/doctor/peer"
)

// TestDoctorPeerByCommand is both sides over the guest's device; then there is nobody,
// and no such device.
func TestDoctorPeerByCommand(t *testing.T) {
	device, addr := transferDevice(t)
	listened, listenLog, listening := command(t.Context(), "doctor --once --json -d "+device+" --listen "+addr+":7790")
	var r peer.Result
	for r.Failed = peer.StepReach; r.Failed == peer.StepReach; { // until it listens
		stdout, stderr, code := execute(t.Context(), "doctor --json -d "+device+" --peer "+addr+":7790")
		r = peer.Result{}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || (code == exitOK) != (r.Failed == "") {
			t.Fatalf("exit %d: %v\n%s\n%s", code, err, stdout, stderr)
		}
		select {
		case code := <-listening:
			if r.Failed == peer.StepReach {
				t.Fatalf("exit %d\n%s", code, listenLog)
			}
			if code != exitOK || !strings.Contains(listened.String(), `"role":"listener"`) {
				t.Errorf("exit %d\n%s\n%s", code, listened, listenLog)
			}
			listening = nil
		default:
		}
	}
	if r.Failed != "" || r.Local.Device != device || r.Local.Embedded {
		t.Errorf("%+v", r)
	}
	if listening != nil {
		if code := <-listening; code != exitOK {
			t.Errorf("exit %d\n%s\n%s", code, listened, listenLog)
		}
	}
	for args, want := range map[string]int{
		"--timeout 5s -d " + device: exitFailed,
		"-d nosuch0":                exitNoDevice,
		"-i 7 -d " + device:         exitUsage,
	} {
		if stdout, stderr, code := execute(t.Context(), "doctor --peer "+addr+":7790 "+args); code != want || !strings.Contains(stdout, "fails at the step") {
			t.Errorf("%s: exit %d, want %d\n%s\n%s", args, code, want, stdout, stderr)
		}
	}
}
