package perf

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/verbs/exchange"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int{
		"1": 1, "0": 0, "4096": 4096, "64K": 64 << 10, "64k": 64 << 10, "8M": 8 << 20, "1G": 1 << 30,
	} {
		if got, err := ParseSize(in); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "K", "-1", "+1", "1.5K", "64KB", "2G", "0x10", "1 K", "99999999999", "9999999M"} {
		if got, err := ParseSize(in); !errors.Is(err, exchange.ErrUsage) {
			t.Errorf("%q: %d, %v; want a usage error", in, got, err)
		}
	}
}

func TestDefaultsAreTheFields(t *testing.T) {
	for _, c := range []struct {
		op                               Op
		test                             Test
		change                           func(*Options)
		size, iters, depth, mod, rxDepth int
	}{
		{Write, Bandwidth, nil, 65536, 5000, 128, 1, 512},
		{Read, Bandwidth, func(o *Options) { o.Size = 8 }, 8, 5000, 128, 100, 512},
		{Send, Bandwidth, func(o *Options) { o.Size, o.TxDepth = 8192, 64 }, 8192, 5000, 64, 64, 512},
		{Write, Bandwidth, func(o *Options) { o.List = 10 }, 65536, 5000, 128, 10, 512},
		{Write, Bandwidth, func(o *Options) { o.All = true }, 65536, 5000, 128, 100, 512},
		{Write, Latency, nil, 2, 1000, 1, 1, 512},
		{Atomic, Latency, nil, 8, 1000, 1, 1, 512},
		{Atomic, Bandwidth, nil, 8, 5000, 128, 100, 512},
		{Write, Bandwidth, func(o *Options) { o.Duration = time.Second }, 65536, 0, 128, 1, 512},
	} {
		o := Defaults(c.op, c.test)
		if c.change != nil {
			c.change(&o)
		}
		if err := o.Check(); err != nil {
			t.Errorf("%s %s: %v", c.op, c.test, err)
		}
		if o.Size != c.size || o.Iters != c.iters || o.TxDepth != c.depth || o.CQMod != c.mod || o.RxDepth != c.rxDepth {
			t.Errorf("%s %s: size %d, iterations %d, depths %d and %d, moderation %d; want %+v", c.op, c.test, o.Size, o.Iters, o.TxDepth, o.RxDepth, o.CQMod, c)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		op     Op
		test   Test
		change func(*Options)
		want   string
	}{
		"operation":       {"swap", Bandwidth, nil, "choose write, read, send or atomic"},
		"test":            {Write, "rate", nil, "choose bw or lat"},
		"transport":       {Write, Bandwidth, func(o *Options) { o.Transport = "udp" }, "choose rdma, tcp or memcpy"},
		"size":            {Write, Bandwidth, func(o *Options) { o.Size = -1 }, "1 byte to 1G"},
		"atomic size":     {Atomic, Bandwidth, func(o *Options) { o.Size = 16 }, "8 bytes"},
		"both ends":       {Write, Bandwidth, func(o *Options) { o.Iters, o.Duration = 5, 5 }, "-n and -D"},
		"iterations":      {Write, Bandwidth, func(o *Options) { o.Iters = -5 }, "nothing to do"},
		"queue pairs":     {Write, Bandwidth, func(o *Options) { o.QPs = 0 }, "0 queue pairs"},
		"latency of many": {Write, Latency, func(o *Options) { o.QPs = 2 }, "one queue pair"},
		"latency both":    {Write, Latency, func(o *Options) { o.Bidirectional = true }, "-b"},
		"depth":           {Write, Bandwidth, func(o *Options) { o.TxDepth = -1 }, "-t -1"},
		"huge depth":      {Write, Bandwidth, func(o *Options) { o.TxDepth = math.MaxInt }, "-t 9223372036854775807"},
		"huge moderation": {Write, Bandwidth, func(o *Options) { o.CQMod = math.MaxInt }, "-Q 9223372036854775807"},
		"huge inline":     {Write, Bandwidth, func(o *Options) { o.Inline = 1 << 32 }, "-I 4294967296"},
		"list over depth": {Write, Bandwidth, func(o *Options) { o.TxDepth, o.List = 4, 8 }, "-l 8"},
		"list and count":  {Write, Bandwidth, func(o *Options) { o.Iters, o.List = 10, 3 }, "no multiple"},
		"moderation":      {Write, Bandwidth, func(o *Options) { o.CQMod = 200 }, "-Q 200"},
		"rounded up":      {Write, Bandwidth, func(o *Options) { o.CQMod, o.List, o.TxDepth, o.Iters = 100, 64, 100, 128 }, "-Q 100"},
		"inline":          {Write, Bandwidth, func(o *Options) { o.Inline = -2 }, "-I -2"},
		"inline read":     {Read, Bandwidth, func(o *Options) { o.Inline = 8 }, "carries no data"},
		"memory":          {Write, Bandwidth, func(o *Options) { o.Size, o.QPs = 1<<30, 4000 }, "MiB of memory"},
		"mtu":             {Write, Bandwidth, func(o *Options) { o.MTU = 1500 }, "-m 1500"},
		"qp timeout":      {Write, Bandwidth, func(o *Options) { o.QPTimeout = 32 }, "-u 32"},
		"events":          {Write, Latency, func(o *Options) { o.Events = true }, "raises no event"},
		"tcp port":        {Write, Bandwidth, func(o *Options) { o.TCPPort = 70000 }, "1 to 65535"},
		"device port":     {Write, Bandwidth, func(o *Options) { o.IBPort = 0 }, "numbered from 1"},
		"gid":             {Write, Bandwidth, func(o *Options) { o.GID = -2 }, "numbered from 0"},
		"level":           {Write, Bandwidth, func(o *Options) { o.SL = 16 }, "0 to 15"},
		"timeout":         {Write, Bandwidth, func(o *Options) { o.Timeout = 0 }, "above 0"},
		"two roles":       {Write, Bandwidth, func(o *Options) { o.Server, o.Listen = "a", "b" }, "--listen is for the server"},
		"memcpy address":  {Write, Bandwidth, func(o *Options) { o.Transport, o.Server = Memcpy, "a" }, "give no address"},
		"memcpy both":     {Write, Bandwidth, func(o *Options) { o.Transport, o.Bidirectional = Memcpy, true }, "-b"},
		"memcpy queues":   {Write, Bandwidth, func(o *Options) { o.Transport, o.QPs = Memcpy, 2 }, "-q"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Defaults(c.op, c.test)
			if c.change != nil {
				c.change(&o)
			}
			if err := o.Check(); !errors.Is(err, exchange.ErrUsage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want a usage error with %q", err, c.want)
			}
		})
	}
	o := Defaults(Atomic, Bandwidth)
	o.Transport = TCP
	if err := o.Check(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("atomic operations over TCP: %v", err)
	}
}

func TestServerTakesTheClientsWorkload(t *testing.T) {
	client := Defaults(Write, Bandwidth)
	client.Size, client.QPs, client.Verify = 8, 3, true
	if err := client.Check(); err != nil {
		t.Fatal(err)
	}
	server := Defaults(Write, Bandwidth)
	server.QPs, server.Given = 3, map[string]bool{"qp": true}
	if err := server.Check(); err != nil {
		t.Fatal(err)
	}
	if err := server.adopt(client.Workload); err != nil || server.Workload != client.Workload {
		t.Errorf("%v, %+v; want %+v", err, server.Workload, client.Workload)
	}

	for name, c := range map[string]struct {
		change func(*Options, *Workload)
		want   string
	}{
		"another size": {func(o *Options, _ *Workload) { o.Size, o.Given = 64, map[string]bool{"size": true} }, "--size is 64 at the server and 8 at the client"},
		"another test": {func(o *Options, _ *Workload) { o.Test = Latency }, "the server runs write lat over rdma"},
		"hostile":      {func(_ *Options, w *Workload) { w.QPs = 1 << 30 }, "queue pairs"},
		"hostile list": {func(_ *Options, w *Workload) { w.List = 0 }, "-l 0"},
		"hostile size": {func(_ *Options, w *Workload) { w.Size = -4 }, "size -4"},
	} {
		o, w := Defaults(Write, Bandwidth), client.Workload
		c.change(&o, &w)
		if err := o.adopt(w); !errors.Is(err, exchange.ErrUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestAllSizes(t *testing.T) {
	w := Workload{All: true}
	s := w.sizes()
	if len(s) != 23 || s[0] != 2 || s[22] != 8<<20 || w.largest() != 8<<20 {
		t.Errorf("%v", s)
	}
}
