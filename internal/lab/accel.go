package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Accelerators of QEMU. TCG translates, needs nothing, and always works.
const (
	AccelTCG  = "tcg"
	AccelKVM  = "kvm"
	AccelAuto = "auto" // KVM if it proves itself, else TCG
	// AccelICount is TCG with the guest's clock driven by its instructions, one
	// a nanosecond, and by the host's while it idles: a time measured inside counts
	// instructions, kernel's and user's, whatever else the host does. The
	// processors take turns on one thread.
	AccelICount = "icount"
)

// trialLimit is how long KVM gets for a guest whose command is "true". Where it
// works that takes a second or two. Where it is nested and broken it burns a
// minute before it fails.
const trialLimit = 8 * time.Second

// trial is what became of KVM, as the cache keeps it. It holds for one boot of
// this machine.
type trial struct {
	Boot    string `json:"boot"`    // /proc/sys/kernel/random/boot_id
	Root    string `json:"root"`    // the entry whose QEMU tried
	Problem string `json:"problem"` // "": it works
}

// chooseAccel gives the accelerator to use: never KVM merely because /dev/kvm
// is there, only after a guest has reached user space with it.
func chooseAccel(ctx context.Context, accel string, qemu, guest *root, log io.Writer) (string, error) {
	if accel == AccelTCG || accel == AccelICount {
		return accel, nil
	}
	problem, err := tryKVM(ctx, qemu, guest, log)
	switch {
	case err != nil:
		return "", err
	case problem == "":
		return AccelKVM, nil
	case accel == AccelKVM:
		return "", fmt.Errorf("KVM does not run a guest here: %s; leave --accel out for tcg", problem)
	}
	return AccelTCG, nil
}

func tryKVM(ctx context.Context, qemu, guest *root, log io.Writer) (problem string, err error) {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return err.Error(), nil
	}
	f.Close()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	now := trial{Boot: strings.TrimSpace(string(boot)), Root: filepath.Base(qemu.dir)}
	kept := filepath.Join(filepath.Dir(qemu.dir), "kvm.json")
	var before trial
	if b, err := os.ReadFile(kept); err == nil && json.Unmarshal(b, &before) == nil &&
		before.Boot == now.Boot && before.Root == now.Root {
		return before.Problem, nil
	}

	fmt.Fprintf(log, "lab: trying KVM, %s at most\n", trialLimit)
	o := Options{Kernel: guest.Kernel, Command: []string{"true"}, Link: LinkNone, CPUs: 1, Memory: 512, Timeout: trialLimit, Log: io.Discard}
	if err := o.setDefaults(); err != nil {
		return "", err
	}
	o.Accel = AccelKVM
	err = newRun(o, qemu, guest).run(ctx)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if dead := (*GuestError)(nil); errors.As(err, &dead) {
		now.Problem = dead.Problem
	} else if err != nil {
		return "", err
	}
	var b bytes.Buffer
	json.NewEncoder(&b).Encode(now)
	// A loss costs the next run a trial.
	if err := os.WriteFile(kept+".new", b.Bytes(), 0o644); err == nil {
		os.Rename(kept+".new", kept)
	}
	return now.Problem, nil
}
