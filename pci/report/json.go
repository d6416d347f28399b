package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/peerdirect/peerdirect/pci"
)

// Schema names the form of the JSON document. Fields may be added to it; a change of
// one that is there is a new schema.
const Schema = "peerdirect.topo/1"

// JSON prints all that is known of a machine as one document. Devices are told by
// their addresses and hang in the tree by that of their parent; what is unknown is
// null. Without a pairing its parts are null too. The problems are those of the
// reading, which errors.Join may have joined. Its errors are w's.
func JSON(w io.Writer, t *pci.Topology, p *pci.Pairing, problems error) error {
	if t == nil {
		return errNoTopology
	}
	d := &document{w: bufio.NewWriterSize(w, 64<<10), page: newPage(t, 0)}
	d.line.enc = json.NewEncoder(&d.line.buf)
	d.line.enc.SetEscapeHTML(false)
	d.values("schema", Schema)
	d.values("source", known(t.Source))
	d.values("platform", platformOf(&t.Platform))
	d.list("nodes", each(t.Nodes, nodeOf))
	d.list("roots", each(t.Roots, rootOf))
	d.list("devices", each(t.Devices, d.deviceOf))
	d.list("switches", each(t.Switches, switchOf))
	d.list("cards", each(t.Cards, cardOf))
	d.pairing(p)
	d.list("distances", d.distances())
	d.list("p2p", d.verdicts())
	d.list("findings", each(t.FindingsOf(p), findingOf))
	d.list("problems", each(unjoin(problems), func(err error) any { return err.Error() }))
	if d.err != nil {
		return d.err
	}
	d.w.WriteString("\n}\n")
	return d.w.Flush()
}

// document is a JSON object that is written member by member: of thousands of devices
// the distances are too many to hold. An element of a list has a line of its own.
type document struct {
	*page
	w    *bufio.Writer
	line struct {
		buf bytes.Buffer
		enc *json.Encoder
	}
	begun bool
	err   error
}

func (d *document) key(name string) {
	if d.begun {
		d.w.WriteByte(',')
	} else {
		d.w.WriteByte('{')
	}
	d.begun = true
	d.w.WriteString("\n  \"" + name + "\": ")
}

func (d *document) values(name string, v any) {
	d.key(name)
	d.value(v)
}

func (d *document) value(v any) {
	d.line.buf.Reset()
	if err := d.line.enc.Encode(v); err != nil && d.err == nil {
		d.err = err
	}
	d.w.Write(visible(bytes.TrimSuffix(d.line.buf.Bytes(), []byte("\n"))))
}

// visible escapes what a terminal might take for more than text, as \u of JSON; the
// encoder does so below the blank only. Outside a string nothing of it can be.
func visible(b []byte) []byte {
	if !slices.ContainsFunc(b, func(c byte) bool { return c >= 0x7f }) {
		return b
	}
	var out []byte
	for _, r := range string(b) {
		switch {
		case r < 0x7f, unicode.IsPrint(r) && !unicode.IsMark(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

func (d *document) list(name string, elements iter.Seq[any]) {
	d.key(name)
	separator := "[\n    "
	for v := range elements {
		d.w.WriteString(separator)
		d.value(v)
		separator = ",\n    "
		if d.err != nil {
			return
		}
	}
	if separator[0] == '[' {
		d.w.WriteString("[]")
	} else {
		d.w.WriteString("\n  ]")
	}
}

func each[T any](elements []T, of func(T) any) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, e := range elements {
			if !yield(of(e)) {
				return
			}
		}
	}
}

func (d *document) pairing(p *pci.Pairing) {
	if p == nil {
		for _, name := range []string{"pairs", "unpaired", "ignored", "notes"} {
			d.values(name, nil)
		}
		return
	}
	d.list("pairs", each(p.Pairs, func(p pci.Pair) any {
		return pairJSON{p.Accelerator.Address, addresses(p.Rails), class(p.Class), p.Reason}
	}))
	d.values("unpaired", addresses(p.Unpaired))
	d.list("ignored", each(p.Ignored, func(i pci.Ignored) any { return ignoredJSON{i.Device.Address, i.Why} }))
	d.list("notes", each(p.Notes, func(s string) any { return s }))
}

// ends goes through each accelerator with every other accelerator, RDMA NIC and NVMe.
// A virtual function is where its physical one is, and has no line.
func (d *document) ends() iter.Seq2[*pci.Device, *pci.Device] {
	return func(yield func(a, b *pci.Device) bool) {
		var from, to []*pci.Device
		for _, kind := range []pci.Kind{pci.Accelerator, pci.RDMANIC, pci.NVMe} {
			for _, o := range d.t.Of(kind) {
				if o.PF == nil {
					to = append(to, o)
				}
			}
			if kind == pci.Accelerator {
				from = to
			}
		}
		for _, a := range from {
			for _, b := range to {
				if a != b && !yield(a, b) {
					return
				}
			}
		}
	}
}

func (d *document) distances() iter.Seq[any] {
	return func(yield func(any) bool) {
		for a, b := range d.ends() {
			at := d.t.Distance(a, b)
			if !yield(distanceJSON{a.Address, b.Address, class(at.Class), at.Reason, addresses(at.Path)}) {
				return
			}
		}
	}
}

// verdicts are of the accelerator's memory and who wants to reach it; the kernel
// answers the same of the other way.
func (d *document) verdicts() iter.Seq[any] {
	return func(yield func(any) bool) {
		for a, b := range d.ends() {
			v := d.t.P2P(a, b)
			through := known(key(string(v.Through)))
			if !yield(p2pJSON{a.Address, b.Address, fact(v.Allowed), through, address(v.Bridge), addresses(v.Redirects), v.Reason}) {
				return
			}
		}
	}
}

// unjoin takes apart what errors.Join has joined, and nothing else: other errors that
// wrap several say more than these.
func unjoin(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	var lines []string
	for _, e := range joined.Unwrap() {
		all = append(all, unjoin(e)...)
		lines = append(lines, e.Error())
	}
	if strings.Join(lines, "\n") != err.Error() {
		return []error{err}
	}
	return all
}
