package ebpfprobes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// field is where a tracepoint hands a value over.
type field struct {
	name         string
	offset, size int
}

// Where bpf/syscalls.bpf.c reads: struct entering and struct leaving.
var (
	enteringFields = map[string][]field{
		"write": {{"fd", 16, 8}, {"buf", 24, 8}, {"count", 32, 8}},
		"ioctl": {{"fd", 16, 8}, {"cmd", 24, 8}, {"arg", 32, 8}},
	}
	leavingFields = []field{{"ret", 16, 8}}
)

// traceFolders are where tracefs may be mounted.
var traceFolders = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// checkTracepoint holds the format of a system call's tracepoint to what is read of it.
func checkTracepoint(name string, want []field) error {
	var errs []error
	for _, folder := range traceFolders {
		f, err := os.Open(folder + "/events/syscalls/" + name + "/format")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer f.Close()
		have, err := parseFormat(f)
		if err != nil {
			return fmt.Errorf("the format of tracepoint %s: %w", name, err)
		}
		return fitsFormat(have, want)
	}
	err := errs[0]
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, folder := range traceFolders {
		if _, err := os.Stat(folder + "/events"); err == nil {
			return fmt.Errorf("this kernel is built without tracepoints of system calls (CONFIG_FTRACE_SYSCALLS): %w", errors.ErrUnsupported)
		}
	}
	return fmt.Errorf("tracefs is not mounted: 'mount -t tracefs tracefs %s': %w", traceFolders[0], errors.ErrUnsupported)
}

// fitsFormat tells which field is not where it is read.
func fitsFormat(have map[string]field, want []field) error {
	for _, w := range want {
		if h, ok := have[w.name]; !ok {
			return fmt.Errorf("%s is not among what this kernel hands over: %w", w.name, errors.ErrUnsupported)
		} else if h != w {
			return fmt.Errorf("%s is at %d with %d bytes, and not at %d with %d: %w", w.name, h.offset, h.size, w.offset, w.size, errors.ErrUnsupported)
		}
	}
	return nil
}

// parseFormat takes lines "field:unsigned int fd;	offset:16;	size:8;	signed:0;" of a
// tracepoint's format (kernel/trace/trace_events.c, f_show).
func parseFormat(r io.Reader) (map[string]field, error) {
	fields := make(map[string]field)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "field:")
		if !ok {
			continue
		}
		var f field
		for i, part := range strings.Split(line, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), ":")
			var err error
			switch {
			case i == 0: // a declaration in C: the name comes last
				words := strings.FieldsFunc(part, func(r rune) bool { return r == ' ' || r == '*' })
				if len(words) > 0 {
					f.name, _, _ = strings.Cut(words[len(words)-1], "[")
				}
			case name == "offset":
				f.offset, err = strconv.Atoi(value)
			case name == "size":
				f.size, err = strconv.Atoi(value)
			}
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
		}
		if f.name != "" {
			fields[f.name] = f
		}
	}
	return fields, lines.Err()
}
