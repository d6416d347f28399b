package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/hwlocxml"
	"github.com/peerdirect/peerdirect/pci/ncclxml"
)

// topoSource is a system root: "" this machine's, "-" a capture on standard input.
type topoSource string

const topoSourceUsage = "read the capture or the `root` that holds a /sys, instead of this machine; - is standard input (default /)"

// captureNames are how captures' names end.
var captureNames = []string{"tar", "tgz", "gz", "bz2", "xz"}

func (s topoSource) open(stdin io.Reader) (fs.FS, error) {
	switch s {
	case "":
		return sysroot.Open("/")
	case "-":
		root, err := sysroot.ReadTar(stdin)
		if err != nil {
			return nil, fmt.Errorf("--sysroot, standard input: %w", err)
		}
		return root, nil
	}
	root, err := sysroot.Open(string(s))
	if err != nil {
		if f, failed := os.Open(string(s)); failed == nil {
			defer f.Close()
			if element, _, failed := rootElement(f); failed == nil {
				return nil, fmt.Errorf("--sysroot %s: this is XML (<%s>), which goes with --from", s, element)
			}
		}
		return nil, fmt.Errorf("--sysroot: %w", err)
	}
	return root, nil
}

func (s topoSource) String() string {
	switch s {
	case "":
		return "/"
	case "-":
		return "standard input"
	}
	return string(s)
}

// failure tells in a line why nothing could be read of the source. A lack of
// permission is one only if nothing else explains it.
func (s topoSource) failure(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		for _, e := range apart(err) {
			if errors.Is(e, fs.ErrPermission) {
				return fmt.Errorf("%s: %w: no PCI device can be seen; run as root, or ask for the right to read /sys", s, e)
			}
		}
	}
	if !errors.Is(err, pci.ErrNoDevice) {
		return err
	}
	if s == "" {
		return fmt.Errorf("%w: /sys/bus/pci/devices is empty or not there; in a container mount /sys, a virtual machine may have no PCI; --sysroot and --from read another machine", pci.ErrNoDevice)
	}
	return fmt.Errorf("%s: %w: there is no sys/bus/pci/devices with a PCI function in it; name the folder that holds sys, or a capture", s, pci.ErrNoDevice)
}

// read reads the machine, and what of it could not be read as problems.
func (o *topoOptions) read(stdin io.Reader) (t *pci.Topology, problems, err error) {
	if o.from != "" {
		return readXML(o.from, stdin)
	}
	root, err := o.source.open(stdin)
	if err != nil {
		return nil, nil, err
	}
	read := pci.Read
	if o.outline() {
		read = pci.ReadOutline
	}
	if t, problems = read(root); t == nil {
		return nil, nil, o.source.failure(problems)
	}
	t.Source = o.source.String()
	return t, problems, nil
}

// readXML reads a topology file of whichever kind its root element tells.
func readXML(name string, stdin io.Reader) (t *pci.Topology, problems, err error) {
	in, source := stdin, "standard input"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, fmt.Errorf("--from: %w", err)
		}
		defer f.Close()
		in, source = f, name
	}
	element, in, err := rootElement(in)
	if err != nil {
		return nil, nil, fmt.Errorf("--from %s: %w", source, err)
	}
	switch element {
	case "system":
		t, problems = ncclxml.Read(in)
	case "topology":
		t, problems = hwlocxml.Read(in)
	default:
		return nil, nil, fmt.Errorf("--from %s: its root element is <%s>; NCCL's files have <system>, hwloc's <topology>", source, element)
	}
	if t == nil {
		return nil, nil, fmt.Errorf("--from %s: %w", source, whyNothing(problems))
	}
	t.Source = source
	return t, problems, nil
}

// whyNothing tells in a line why a file gave no device: that it is damaged, if it is.
func whyNothing(problems error) error {
	none := fmt.Errorf("%w: there is no PCI device in it", pci.ErrNoDevice)
	for _, e := range apart(problems) {
		switch {
		case !errors.Is(e, pci.ErrNoDevice):
			return e
		case e != pci.ErrNoDevice:
			none = e // it says more
		}
	}
	return none
}

// rootElement gives the name of the first element, and all of in again.
func rootElement(in io.Reader) (string, io.Reader, error) {
	const most = 64 << 10 // a licence may stand before it
	var seen bytes.Buffer
	d := xml.NewDecoder(io.TeeReader(io.LimitReader(in, most), &seen))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // names are ASCII
	for {
		token, err := d.Token()
		if start, ok := token.(xml.StartElement); ok {
			return start.Name.Local, io.MultiReader(&seen, in), nil
		}
		if text, ok := token.(xml.CharData); ok && len(bytes.TrimSpace(text)) > 0 {
			err = errors.New("text before any element")
		}
		var syntax *xml.SyntaxError
		switch {
		case err == nil:
		case err == io.EOF, errors.As(err, &syntax), !errors.As(err, new(*fs.PathError)):
			return "", nil, fmt.Errorf("this is no XML (%v); a capture or a folder goes with --sysroot", err)
		default:
			return "", nil, err
		}
	}
}

// readOverrides reads a file of overrides; "" is none.
func readOverrides(name string) (*pci.Overrides, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--overrides: %w", err)
	}
	defer f.Close()
	overrides, err := pci.ParseOverrides(f)
	return overrides, overridesError(name, err)
}

// overridesError adds the file to a line that cannot be followed: a mistake of who
// wrote it, as one in a flag is.
func overridesError(name string, err error) error {
	var line *pci.OverrideError
	if errors.As(err, &line) {
		return usageError{fmt.Errorf("%s:%d: %w", name, line.Line, line.Err)}
	}
	return err
}

// warn tells what could not be read, a line each; rest says where those are that
// would fill the screen.
func warn(w io.Writer, problems error, rest string) {
	const most = 5
	all := apart(problems)
	for _, e := range all[:min(len(all), most)] {
		fmt.Fprintf(w, "peerdirect: %s\n", oneLine(e.Error()))
	}
	if n := len(all) - most; n > 0 {
		fmt.Fprintf(w, "peerdirect: … and %d more; %s\n", n, rest)
	}
}

// apart takes joined errors apart.
func apart(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// oneLine keeps what files of a capture say from moving the cursor.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, s)
}

// interruptible gives what work gives, unless the context ends before: standard
// input may be a terminal, and the document of thousands of devices takes seconds.
func interruptible(ctx context.Context, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.New("interrupted")
	}
}
