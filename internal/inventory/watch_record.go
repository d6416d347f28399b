package inventory

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// WatchSchema names the form of a Record in JSON.
const WatchSchema = "peerdirect.devices.watch/1"

// Record is one change. What does not apply is null.
type Record struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"`
	Source string    `json:"source"` // compare, netlink, async
	Event  string    `json:"event"`
	Device *string   `json:"device"`
	Port   *int      `json:"port"`
	Field  *string   `json:"field"` // as in an Inventory; gids[3] for one GID
	From   *string   `json:"from"`
	To     *string   `json:"to"`
	Detail *string   `json:"detail"`
}

// WriteJSON prints the record as one line.
func (r Record) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteText prints the record as one line: 18:22:50.123  rxe0/1  state DOWN -> ACTIVE.
func (r Record) WriteText(w io.Writer) error {
	name := or(r.Device, "-")
	if r.Port != nil {
		name += fmt.Sprintf("/%d", *r.Port)
	}
	what := r.Event
	switch r.Event {
	case EventChanged:
		what = fmt.Sprintf("%s %s -> %s", *r.Field, or(r.From, "none"), or(r.To, "none"))
	case EventPresent:
		what = "is " + or(r.To, "unknown")
	case EventNotified:
		what = fmt.Sprintf("(%s) %s", r.Source, *r.Detail)
	}
	_, err := fmt.Fprintf(w, "%s  %-10s  %s\n", r.Time.Local().Format("15:04:05.000"), name, what)
	return err
}
