package inventory

import (
	"fmt"
	"slices"
	"strings"
)

// compare gives the changes that lead from one snapshot to the next.
func (w *watcher) compare(before, now map[string]Device) []Record {
	var out []Record
	add := func(r Record) {
		if w.wanted(r) {
			out = append(out, r)
		}
	}
	same := func(name string) bool {
		a, ok := before[name]
		b, still := now[name]
		return ok && still && *a.Index == *b.Index
	}
	for _, name := range sorted(before) {
		if !same(name) {
			add(w.record("compare", EventRemoved, name, 0))
		}
	}
	for _, name := range sorted(now) {
		d := now[name]
		if !same(name) {
			add(w.record("compare", EventAdded, name, 0))
			for _, p := range d.Ports {
				r := w.record("compare", EventPresent, name, p.Number)
				r.Field, r.To = new("state"), p.State
				add(r)
			}
			continue
		}
		old := before[name]
		for _, r := range w.fields(name, 0, [][3]*string{{new("firmware_version"), old.Firmware, d.Firmware}}) {
			add(r)
		}
		for _, p := range d.Ports {
			q := old.portOf(p.Number)
			for _, r := range w.fields(name, p.Number, q.watched(&p)) {
				add(r)
			}
		}
	}
	return out
}

func (w *watcher) fields(device string, port int, all [][3]*string) []Record {
	var out []Record
	for _, f := range all {
		if or(f[1], "") == or(f[2], "") {
			continue
		}
		r := w.record("compare", EventChanged, device, port)
		r.Field, r.From, r.To = f[0], f[1], f[2]
		out = append(out, r)
	}
	return out
}

// watched pairs the fields that Watch compares: name, old and new value.
func (p *Port) watched(now *Port) [][3]*string {
	all := [][3]*string{
		{new("state"), p.State, now.State},
		{new("physical_state"), p.PhysicalState, now.PhysicalState},
		{new("link_layer"), p.LinkLayer, now.LinkLayer},
		{new("netdev"), p.Netdev, now.Netdev},
		{new("rate_mbps"), words(p.Rate), words(now.Rate)},
		{new("active_mtu_bytes"), words(p.ActiveMTU), words(now.ActiveMTU)},
		{new("lid"), words(p.LID), words(now.LID)},
		{new("sm_lid"), words(p.SMLID), words(now.SMLID)},
	}
	table := func(list []GID) map[int]string {
		m := map[int]string{}
		for _, g := range list {
			m[g.Index] = strings.TrimSpace(g.Address + " " + or(g.Type, ""))
		}
		return m
	}
	a, b := table(p.GIDs), table(now.GIDs)
	var indexes []int
	for i := range a {
		indexes = append(indexes, i)
	}
	for i := range b {
		if _, ok := a[i]; !ok {
			indexes = append(indexes, i)
		}
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		all = append(all, [3]*string{new(fmt.Sprintf("gids[%d]", i)), entry(a, i), entry(b, i)})
	}
	return all
}

func entry(m map[int]string, i int) *string {
	s, ok := m[i]
	if !ok {
		return nil
	}
	return &s
}

func words[T any](v *T) *string {
	if v == nil {
		return nil
	}
	return new(fmt.Sprint(*v))
}
