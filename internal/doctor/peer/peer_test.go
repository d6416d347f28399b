package peer

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestPath: every step between two embedded nodes is in order, at both sides.
func TestPath(t *testing.T) {
	nothingLeft(t)
	p := newPair(t)
	here, there := p.run(t)
	for _, o := range []outcome{here, there} {
		if o.err != nil || o.result.Verdict != OK || o.result.Failed != "" {
			t.Fatalf("%v\n%s", o.err, show(o.result))
		}
		for i, s := range o.result.Steps {
			if s.Name != Names()[i] || s.Verdict != OK || s.Summary == "" || s.Remedy != "" {
				t.Errorf("%s: %+v", o.result.Role, s)
			}
		}
		if o.result.Local.Transport != "EFA SRD" || !o.result.Remote.Embedded || o.result.Schema != Schema {
			t.Error(show(o.result))
		}
	}
	if here.result.Local != there.result.Remote || here.result.Remote != there.result.Local || here.result.Remote.Version != "there" {
		t.Errorf("%+v\n%+v", here.result, there.result)
	}
	for _, want := range []string{"write-latency", "write-rate", "overtaken-notices", "tcp-connect"} {
		if !strings.Contains(show(here.result), `"`+want+`"`) {
			t.Errorf("no figure %s: %s", want, show(here.result))
		}
	}
}

// show is a result as JSON.
func show(r *Result) string {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestJSON: a result can be read by its schema.
func TestJSON(t *testing.T) {
	r := newResult(RoleDialler)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(b, &back); err != nil || len(back.Steps) != len(Names()) || back.Steps[3].Name != StepMatch {
		t.Errorf("%v: %s", err, b)
	}
	for _, key := range []string{`"schema":"peerdirect.doctor.peer/1"`, `"verdict":"not reached"`} {
		if !strings.Contains(string(b), key) {
			t.Errorf("no %s in %s", key, b)
		}
	}
}
