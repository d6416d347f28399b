package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/dmabuf"
)

func dmabufRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), append([]string{"dmabuf"}, args...), strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

func TestDMABufUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no such command":   {[]string{"liszt"}, exitUsage, "liszt"},
		"list one":          {[]string{"list", "udmabuf"}, exitUsage, "udmabuf"},
		"show nobody":       {[]string{"show"}, exitUsage, "arg"},
		"show two":          {[]string{"show", "1", "2"}, exitUsage, "arg"},
		"show a name":       {[]string{"show", "init"}, exitUsage, `"init" is no process ID`},
		"show 0":            {[]string{"show", "0"}, exitUsage, "no process ID"},
		"show a long one":   {[]string{"show", "99999999999"}, exitUsage, "no process ID"},
		"no such process":   {[]string{"show", "2147483647"}, exitFailed, "process 2147483647: dma-bufs held: no such process (ESRCH)"},
		"nor in JSON":       {[]string{"show", "2147483647", "--json"}, exitFailed, "ESRCH"},
		"flags of nobody's": {[]string{"show", "--all"}, exitUsage, "--all"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := dmabufRun(t, c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and %q", code, stdout, stderr, c.code, c.want)
			}
		})
	}
	code, stdout, _ := dmabufRun(t)
	prose, _, _ := strings.Cut(stdout, "\n\n")
	for _, word := range []string{"list", "show", "check", "probe"} {
		if code != exitOK || !strings.Contains(prose, word) || !strings.Contains(stdout, "\n  "+word) {
			t.Errorf("exit %d, help lacks %s:\n%s", code, word, stdout)
		}
	}
}

func TestDMABufListNamesEveryExporterAndWhatItLacks(t *testing.T) {
	code, stdout, stderr := dmabufRun(t, "list", "--json")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	var list dmabufList
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil || list.Schema != dmabufListSchema {
		t.Fatalf("%v, schema %q", err, list.Schema)
	}
	_, table, _ := dmabufRun(t, "list")
	kinds := make(map[string]bool)
	for _, x := range list.Exporters {
		kind, _, _ := strings.Cut(x.Name, ":")
		kinds[kind] = true
		if x.Memory == "" || x.Available == (x.Problem != nil) {
			t.Errorf("%+v", x)
		}
		if p := x.Problem; p != nil && (p.Error == "" || p.Class == "failed" || !strings.Contains(table, p.Error)) {
			t.Errorf("%s: %+v", x.Name, *p)
		}
		if !strings.Contains(table, "\n"+x.Name+" ") {
			t.Errorf("the table lacks %s:\n%s", x.Name, table)
		}
	}
	for _, kind := range []string{"udmabuf", "heap", "memfd", "drm", "vgem", "vfio"} {
		if !kinds[kind] {
			t.Errorf("no %s in\n%s", kind, stdout)
		}
	}
}

func TestDMABufListIsReadByPeople(t *testing.T) {
	list := dmabufList{Exporters: []dmabufExporter{
		{Name: "udmabuf", Memory: "host memory", Available: true},
		{Name: "vfio:0000:3b:00.0:2", Memory: "a BAR", Problem: problemOf(&dmabuf.Error{Op: "open /dev/vfio/vfio", Exporter: "vfio:0000:3b:00.0:2",
			Err: syscall.EACCES, Detail: "ask as root"})},
	}}
	var b bytes.Buffer
	if err := list.print(&b); err != nil {
		t.Fatal(err)
	}
	want := `EXPORTER             AVAILABLE  MEMORY
udmabuf              yes        host memory
vfio:0000:3b:00.0:2  no         a BAR
                                  open /dev/vfio/vfio: permission denied (EACCES)
                                  ask as root
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if p := list.Exporters[1].Problem; p.Class != "permission" || p.Op != "open /dev/vfio/vfio" || p.Remedy != "ask as root" {
		t.Errorf("%+v", p)
	}
}

var someHeld = []dmabuf.Held{
	{Info: dmabuf.Info{Inode: 71, Size: 1 << 20, Count: 4, Exporter: "udmabuf", Name: "pool\x1b[2J"}, FDs: []int{9, 12},
		Mappings: []dmabuf.Mapping{{Start: 0x7f0000000000, End: 0x7f0000002000, Offset: 4096, Access: "rw-s"}}},
	{Info: dmabuf.Info{Inode: 90, Count: -1}, Mappings: []dmabuf.Mapping{{Start: 4096, End: 8192, Access: "r--s"}}},
}

func TestDMABufShowIsReadByPeople(t *testing.T) {
	var b bytes.Buffer
	if err := showText(&b, 7, someHeld); err != nil {
		t.Fatal(err)
	}
	want := `INODE  EXPORTER  BYTES    REFERENCES  DESCRIPTORS  MAPPINGS  NAME
71     udmabuf   1048576  4           9,12         1         "pool\x1b[2J"
90     ?         ?        ?           -            1         -
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	b.Reset()
	showText(&b, 7, nil)
	if b.String() != "process 7 holds no dma-buf\n" {
		t.Errorf("of none: %q", b.String())
	}
}

func TestDMABufShowIsReadByPrograms(t *testing.T) {
	var b bytes.Buffer
	if err := printJSON(&b, showJSON(7, someHeld)); err != nil {
		t.Fatal(err)
	}
	want := `{
  "schema": "peerdirect.dmabuf.show/1",
  "pid": 7,
  "buffers": [
    {
      "inode": 71,
      "exporter": "udmabuf",
      "size": 1048576,
      "count": 4,
      "name": "pool\u001b[2J",
      "fds": [
        9,
        12
      ],
      "mappings": [
        {
          "start": 139637976727552,
          "size": 8192,
          "offset": 4096,
          "access": "rw-s"
        }
      ]
    },
    {
      "inode": 90,
      "exporter": null,
      "size": null,
      "count": null,
      "fds": [],
      "mappings": [
        {
          "start": 4096,
          "size": 4096,
          "offset": 0,
          "access": "r--s"
        }
      ]
    }
  ]
}
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	code, stdout, stderr := dmabufRun(t, "show", strconv.Itoa(os.Getpid()), "--json")
	var none dmabufShow
	if err := json.Unmarshal([]byte(stdout), &none); err != nil || code != exitOK || none.Buffers == nil || len(none.Buffers) != 0 {
		t.Errorf("exit %d, %s%s, %v", code, stdout, stderr, err)
	}
}
