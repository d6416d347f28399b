package main

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/internal/golden"
)

func TestDMABufCheck(t *testing.T) {
	for _, c := range []struct {
		golden string
		code   int
		args   string
	}{
		{"dmabuf-check-good.txt", exitOK, "--driver efa --kernel 7.3.4 --buffer-size 1M --exporter udmabuf --offset 4K --length 64K --iova 0x10000001000 --access local-write --max-mr-size 1T --page-sizes 0xfffff000"},
		{"dmabuf-check-size.txt", exitFailed, "--driver mlx5 --kernel 6.12.0 --buffer-size 20M --offset 8214528 --length 1916853120 --iova 0x12397fd5800"},
		{"dmabuf-check-many.txt", exitFailed, "--driver rxe --kernel 7.3.0 --offset 128 --length 0 --access remote-write,on-demand"},
		{"dmabuf-check-warning.txt", exitOK, "--driver efa --kernel 7.3.0 --buffer-size 2M --offset 0x1000 --length 4K --iova 0x7f0000021000 --address 0x7f0000021000 --base 0x7f0000000000"},
		{"dmabuf-check-fd.txt", exitFailed, "--driver efa --kernel 7.3.0 --length 4K --fd -1"},
		{"dmabuf-check-size.json", exitFailed, "--driver efa --kernel 7.3.0 --buffer-size 4K --length 8K --json"},
	} {
		code, stdout, stderr := dmabufRun(t, append([]string{"check"}, strings.Fields(c.args)...)...)
		if code != c.code || stderr != "" {
			t.Errorf("%s: exit %d, %s", c.golden, code, stderr)
		}
		golden.Check(t, c.golden, []byte(stdout))
		if strings.HasSuffix(c.golden, "json") {
			var got dmabufCheck
			d := json.NewDecoder(strings.NewReader(stdout))
			d.DisallowUnknownFields()
			if err := d.Decode(&got); err != nil || got.Taken || got.Errno != "EINVAL" || got.Failing().Name != "size" {
				t.Errorf("%v, %+v", err, got)
			}
			continue
		}
		for line := range strings.Lines(stdout) {
			if len(line) > 81 {
				t.Errorf("%s: %d columns: %s", c.golden, len(line)-1, line)
			}
		}
	}
}

func TestDMABufCheckUsage(t *testing.T) {
	for args, words := range map[string]string{
		"":                                    "--length is missing",
		"--length 4X":                         "no number of bytes",
		"--length 0x":                         "no number of bytes",
		"--length -1":                         "no number of bytes",
		"--length 18446744073709551616":       "no number of bytes",
		"--length 17179869184G":               "no number of bytes",
		"--length 4K --access writing":        "there are local-write",
		"--length 4K --fd 3 --buffer-size 4K": "--fd tells",
		"--length 4K --address 0x1000":        "go together",
		"--length 4K --page-size 5000":        "power of two",
		"--length 4K extra":                   "",
	} {
		code, stdout, stderr := dmabufRun(t, append([]string{"check"}, strings.Fields(args)...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, words) {
			t.Errorf("%q: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

func TestNumbersOfBytes(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "4096": 4096, "64K": 64 << 10, "64k": 64 << 10, "1M": 1 << 20, "2g": 2 << 30, "3T": 3 << 40, "0x1000": 0x1000,
		"0XfF": 255, "0xffffffffffffffff": 1<<64 - 1, "18446744073709551615": 1<<64 - 1, "17179869183G": 17179869183 << 30,
	} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func FuzzNumbersOfBytes(f *testing.F) {
	f.Add("64K")
	f.Add("0x1000")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parseBytes(text)
		if err != nil || strings.HasPrefix(strings.ToLower(text), "0x") {
			return
		}
		want, ok := new(big.Int).SetString(strings.TrimRight(text, "KMGTkmgt"), 10)
		if unit := strings.IndexAny("KMGT", strings.ToUpper(text[len(text)-1:])); ok && unit >= 0 {
			want.Lsh(want, uint(10*(unit+1)))
		}
		if !ok || want.Cmp(new(big.Int).SetUint64(v)) != 0 {
			t.Errorf("%q is %d", text, v)
		}
	})
}

func TestAccessWords(t *testing.T) {
	for text, want := range map[string]uint64{
		"local-write": 1, "LOCAL_WRITE,remote_read": 5, "0x7": 7, "7,relaxed-ordering": 1<<20 | 7, "0": 0,
	} {
		var bits uint64 = 99
		if err := (accessFlag{&bits}).Set(text); err != nil || bits != want {
			t.Errorf("%q: %#x, %v", text, bits, err)
		}
	}
	bits := dmabufDefaultAccess | 1<<40
	if got := (accessFlag{&bits}).String(); got != "local-write,remote-write,remote-read,0x10000000000" {
		t.Error(got)
	}
	if len(dmabuf.Importers()) != len(driverNames()) {
		t.Error(driverNames())
	}
}
