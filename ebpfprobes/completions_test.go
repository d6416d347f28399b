package ebpfprobes

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCompletionFilter(t *testing.T) {
	for name, c := range map[string]struct {
		filter CompletionFilter
		want   string
	}{
		"no process":   {CompletionFilter{Polled: true}, "name a process"},
		"negative":     {CompletionFilter{PID: 1, Polled: true, Window: -time.Second}, "shorter"},
		"always":       {CompletionFilter{PID: 1, Polled: true, Window: time.Second, Every: time.Second}, "shorter"},
		"always there": {CompletionFilter{PID: 1, Polled: true, Every: time.Millisecond}, "shorter"},
	} {
		s, err := Completions(c.filter)
		var e *Error
		if s != nil || !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCompletionWords(t *testing.T) {
	for got, want := range map[string]string{
		Woken.String(): "woken", Polled.String(): "polled", Marked.String(): "marked", Wait(9).String(): "?9",
		OpWrite.String(): "write", OpReceiveImmediate.String(): "receive-imm", OpcodeUnknown.String(): "unknown",
		Opcode(10).String(): "send-tso", Opcode(11).String(): "?11",
		Status(0).String(): "success", Status(5).String(): "flushed", Status(10).String(): "remote access", Status(23).String(): "rendezvous incomplete", Status(24).String(): "?24", NotTaken.String(): "not taken by the device",
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// What ends is attached before what begins, and what posts last.
func TestUserPointOrder(t *testing.T) {
	for _, pair := range [][2]int{
		{rank("next_poll"), rank("end_poll")}, {rank("poll_cq"), rank("wr_send")}, {rank("end_poll"), rank("wr_send")}, {rank("wr_set_sge"), rank("post_send")},
	} {
		if pair[0] >= pair[1] {
			t.Errorf("%v", pair)
		}
	}
}
