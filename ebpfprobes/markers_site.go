package ebpfprobes

import (
	"fmt"
	"os"
	"runtime"

	"github.com/cilium/ebpf/link"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/usdt"
)

// markArguments is what the notes of package marker say of "complete", and what
// bpf/marked.h reads: marks of another description are of another version.
var markArguments = map[string]string{
	"amd64": "8@(%rdi) 4@32(%rdi) 4@36(%rdi) 8@24(%rdi) 8@8(%rdi) 4@40(%rdi) 8@16(%rdi)",
	"arm64": "8@[x0] 4@[x0, 32] 4@[x0, 36] 8@[x0, 24] 8@[x0, 8] 4@[x0, 40] 8@[x0, 16]",
}[runtime.GOARCH]

// markedProbe is the probe at a file's marks.
func markedProbe(file string, err error) Probe {
	p := Probe{Purpose: "completions", Role: markedRole, Function: "peerdirect:complete", Module: file, Usable: Yes, By: ByUprobe}
	if err != nil {
		p.Usable, p.By, p.Why, p.Err = No, "", err.Error(), err
	}
	return p
}

// completeSite finds the mark "complete" in a file.
func completeSite(path string) (p usdt.Probe, err error) {
	f, err := os.Open(path)
	if err != nil {
		return p, usdt.ErrNone // whoever may not be looked at
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return p, err
	}
	all, err := usdt.Read(f, info.Size())
	if err != nil {
		return p, usdt.ErrNone // another's file that is not as it should be
	}
	for _, p := range all {
		if p.Provider != "peerdirect" || p.Name != "complete" {
			continue
		}
		if p.Arguments != markArguments || p.Semaphore == 0 {
			return p, fmt.Errorf("its marks are of another version, or for another processor: %q", p.Arguments)
		}
		return p, nil
	}
	return p, usdt.ErrNone
}

// attach lets the kernel raise the semaphore wherever the file is mapped, now or later.
func (m *marked) attach(path string, at usdt.Probe) (link.Link, error) {
	file, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	return file.Uprobe("", m.program, &link.UprobeOptions{Address: at.Site, RefCtrOffset: at.Semaphore, PID: m.pid})
}
