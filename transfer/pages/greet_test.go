package pages

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
)

func mine() hello {
	return hello{Protocol: Protocol, Version: "2", Kind: transfer.KindRC, NICs: 1, Queues: 1, Memory: transfer.HostMemory}
}

func TestHellos(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*hello)
		class  error
		words  string
	}{
		"same":     {func(*hello) {}, nil, ""},
		"memory":   {func(h *hello) { h.Memory = "vfio:0000:3b:00.0:2" }, nil, ""},
		"NICs":     {func(h *hello) { h.NICs = transfer.MaxNICs }, nil, ""},
		"version":  {func(h *hello) { h.Protocol++ }, ErrMismatch, "the same peerdirect on both machines"},
		"kind":     {func(h *hello) { h.Kind = transfer.KindEFA }, ErrMismatch, "an InfiniBand, RoCE or iWARP device and the other an EFA device"},
		"unknown":  {func(h *hello) { h.Kind = "carrier\x1b pigeon" }, ErrMismatch, "a kind unknown here"},
		"iWARP":    {func(h *hello) { h.IWARP = true }, ErrMismatch, "choose with --device"},
		"no NICs":  {func(h *hello) { h.NICs = 0 }, errLetter, "0 NICs"},
		"pairs":    {func(h *hello) { h.Queues = 2 }, ErrMismatch, "--qp"},
		"no pairs": {func(h *hello) { h.Queues = 0 }, errLetter, "0 queue pairs"},
		"refused":  {func(h *hello) { h.Refused = "too \x1bmuch" }, nil, "it refuses: too ?much"},
		"escape":   {func(h *hello) { h.Memory = "\x1b[2J" }, errLetter, "memory called"},
		"space":    {func(h *hello) { h.Memory = "a b" }, errLetter, "memory called"},
		"no name":  {func(h *hello) { h.Memory = "" }, errLetter, "memory called"},
		"long":     {func(h *hello) { h.Memory = strings.Repeat("x", maxMemoryName+1) }, errLetter, "memory called"},
		"fabric":   {func(h *hello) { h.Fabric = "00" }, errLetter, "a fabric called"},
	} {
		h := mine()
		c.change(&h)
		b, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		_, err = readHello(b, mine())
		switch {
		case c.words == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.words != "" && (err == nil || c.class != nil && !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.words) || strings.ContainsAny(err.Error(), "\x1b\n")):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzHello(f *testing.F) {
	for _, seed := range []string{
		`{"protocol":4,"rail":"rc","nics":1,"queue_pairs":1,"memory":"cuda:0"}`, `{"protocol":4,"rail":"efa","nics":99}`,
		`{"protocol":4,"rail":"rc","nics":-1,"queue_pairs":1}`, `{"protocol":4,"rail":"rc","nics":1,"queue_pairs":1,"memory":"\u001b["}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(b, mine())
		if err != nil {
			if h != (hello{}) {
				t.Errorf("%+v with %v", h, err)
			}
			return
		}
		if h.Kind != transfer.KindRC || h.NICs < 1 || h.NICs > transfer.MaxNICs || h.Queues != 1 || h.Memory == "" || len(h.Memory) > maxMemoryName {
			t.Errorf("%q was taken as %+v", b, h)
		}
	})
}
