package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/pages"
)

// Live makes lines of what goes on, again and again. The zero value is ready.
type Live struct {
	at    time.Time
	rails []engine.RailStats
	bytes uint64
	rates []float64 // bytes/s, of each NIC
	total float64

	begun time.Time // of what goes on together
	first uint64
}

// leastSpan is what rates are taken over at least: over less they would flicker.
const leastSpan = 300 * time.Millisecond

// Lines shows the transfers that go on and the NICs, in at most so many rows of so
// many columns. There are none where nothing goes on.
func (l *Live) Lines(now time.Time, peers []pages.Progress, rails []engine.RailStats, columns, rows int) []string {
	if len(peers) == 0 || rows < 1 {
		*l = Live{}
		return nil
	}
	var done, total uint64
	for _, p := range peers {
		done, total = done+p.Bytes, total+p.Total
	}
	l.sample(now, done, rails)
	lines := []string{l.head(now, peers, done, total, columns)}
	lines = append(lines, l.nics(rails, columns, rows-1)...)
	if len(peers) > 1 {
		lines = append(lines, receivers(peers, columns, rows-len(lines))...)
	}
	return lines
}

// sample takes the rates since the sample before.
func (l *Live) sample(now time.Time, done uint64, rails []engine.RailStats) {
	if l.begun.IsZero() || len(l.rails) != len(rails) {
		*l = Live{at: now, begun: now, first: done, bytes: done, rails: rails, rates: make([]float64, len(rails))}
		return
	}
	span := now.Sub(l.at)
	if span < leastSpan {
		return
	}
	for i, r := range rails {
		l.rates[i] = float64(r.Bytes-l.rails[i].Bytes) / span.Seconds()
	}
	if l.total = 0; done > l.bytes { // less: one of them has ended
		l.total = float64(done-l.bytes) / span.Seconds()
	}
	l.at, l.bytes, l.rails = now, done, rails
}

// head is the line for all transfers together.
func (l *Live) head(now time.Time, peers []pages.Progress, done, total uint64, columns int) string {
	stage := peers[0].Stage
	for _, p := range peers {
		if p.Stage != stage {
			stage = pages.StageTransfer
		}
	}
	left := fmt.Sprintf("%-8s ", stage)
	if len(peers) > 1 {
		left += fmt.Sprintf("%d peers ", len(peers))
	}
	if done == 0 || total == 0 {
		return cut(left+peers[0].Peer, columns)
	}
	share := min(float64(done)/float64(total), 1)
	right := fmt.Sprintf(" %3.0f%%  %s", 100*share, Bytes(done))
	if l.total > 0 {
		right += fmt.Sprintf("  %s/s", Bytes(l.total))
		if took := now.Sub(l.begun); took > 0 && done > l.first {
			rate := float64(done-l.first) / took.Seconds()
			right += fmt.Sprintf("  %v left", time.Duration(float64(total-min(done, total))/rate*float64(time.Second)).Round(time.Second))
		}
	}
	width := columns - len(left) - len(right) - 2
	if width < 10 {
		return cut(left+right, columns)
	}
	full := int(share * float64(width))
	return left + "[" + strings.Repeat("#", full) + strings.Repeat(" ", width-full) + "]" + right
}

// nics are lines for the NICs, the last of them for those that have no room.
func (l *Live) nics(rails []engine.RailStats, columns, rows int) (lines []string) {
	if rows < 1 {
		return nil
	}
	shown := len(rails)
	if shown > rows {
		shown = rows - 1
	}
	for i, r := range rails[:shown] {
		lines = append(lines, cut("  "+nic(r.Device, l.rates[i], r), columns))
	}
	if rest := rails[shown:]; len(rest) > 0 {
		var sum engine.RailStats
		rate := 0.0
		for i, r := range rest {
			rate += l.rates[shown+i]
			sum.Flight, sum.Failed, sum.Losses, sum.Up = sum.Flight+r.Flight, sum.Failed+r.Failed, sum.Losses+r.Losses, sum.Up+r.Up
		}
		lines = append(lines, cut("  "+nic(fmt.Sprintf("%d more", len(rest)), rate, sum), columns))
	}
	return lines
}

func nic(name string, rate float64, r engine.RailStats) string {
	s := fmt.Sprintf("%-8s %10s/s %6d on their way", name, Bytes(rate), r.Flight)
	if r.Up == 0 {
		s += "  down"
	}
	if r.Losses > 0 {
		s += fmt.Sprintf("  lost %d times", r.Losses)
	}
	if r.Failed > 0 {
		s += fmt.Sprintf("  %d failed", r.Failed)
	}
	return s
}

// receivers are lines for the peers.
func receivers(peers []pages.Progress, columns, rows int) (lines []string) {
	for i, p := range peers {
		if i+1 >= rows && i+1 < len(peers) {
			if rows > 0 {
				lines = append(lines, cut(fmt.Sprintf("  %d peers more", len(peers)-i), columns))
			}
			break
		}
		share := 0.0
		if p.Total > 0 {
			share = 100 * float64(p.Bytes) / float64(p.Total)
		}
		lines = append(lines, cut(fmt.Sprintf("  %3.0f%%  %-8s %s", share, p.Stage, p.Peer), columns))
	}
	return lines
}

func cut(s string, columns int) string { return s[:min(len(s), max(columns, 0))] }
