package peer

import (
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

// Schema is the version of a Result's JSON form.
const Schema = "peerdirect.doctor.peer/1"

// Name names a step.
type Name string

// The steps.
const (
	StepDevice      Name = "device"
	StepReach       Name = "reach"
	StepCredentials Name = "credentials"
	StepMatch       Name = "match"
	StepMTU         Name = "mtu"
	StepKeys        Name = "keys"
	StepConnect     Name = "connect"
	StepSmall       Name = "small-write"
	StepLarge       Name = "large-write"
	StepOrder       Name = "order"
	StepRead        Name = "read"
	StepBack        Name = "back"
)

var steps = [...]Name{StepDevice, StepReach, StepCredentials, StepMatch, StepMTU, StepKeys, StepConnect, StepSmall, StepLarge, StepOrder, StepRead, StepBack}

// Names are the steps in their order.
func Names() []Name { return steps[:] }

// Verdict is how a step ended.
type Verdict string

const (
	OK         Verdict = "ok"
	Warn       Verdict = "warn"        // it works, and something of it should not be so
	Fail       Verdict = "fail"        //
	Skipped    Verdict = "skipped"     // the transport has no such thing; Summary says what
	NotReached Verdict = "not reached" // a step before it failed
)

// Roles of a side.
const (
	RoleDialler  = "dialler"
	RoleListener = "listener"
)

// Result is what one side saw of a path.
type Result struct {
	Schema  string  `json:"schema"`
	Role    string  `json:"role"`
	Address string  `json:"address"` // as it was asked for, or where the dialler came from
	Peer    string  `json:"peer"`    // who the peer proved to be; "token" for all who know one
	Verdict Verdict `json:"verdict"` // fail, warn or ok
	Failed  Name    `json:"failed_step,omitempty"`
	Error   string  `json:"error,omitempty"`
	Local   NIC     `json:"local,omitzero"`
	Remote  NIC     `json:"remote,omitzero"` // once step match has heard of it
	Steps   []Step  `json:"steps"`           // all, in the order of Names
}

// NIC is what a side says of the NIC that is tested.
type NIC struct {
	Version   string        `json:"version"` // of the program
	Host      string        `json:"host"`
	Kind      transfer.Kind `json:"kind"`
	Device    string        `json:"device"`
	Port      int           `json:"port"`
	Transport string        `json:"transport"`
	LinkLayer string        `json:"link_layer"`
	MTU       int           `json:"mtu"` // RDMA's, bytes
	GID       string        `json:"gid"`
	GIDIndex  int           `json:"gid_index"`
	Reads     bool          `json:"reads"`
	Embedded  bool          `json:"embedded"`
	Netdev    string        `json:"netdev"`     // "" where there is none
	NetdevMTU int           `json:"netdev_mtu"` // bytes, 0 where there is no netdev
	Address   string        `json:"ip_address"` // that its packets come from, "" where they are not IP's
	Fabric    string        `json:"fabric"`     // of an embedded device
}

// Step is one step at one side.
type Step struct {
	Name         Name     `json:"name"`
	Verdict      Verdict  `json:"verdict"`
	Seconds      float64  `json:"seconds"`
	Summary      string   `json:"summary"` // one line: what is so, or what failed
	Remedy       string   `json:"remedy,omitempty"`
	Evidence     []string `json:"evidence,omitempty"`
	PeerError    string   `json:"peer_error,omitempty"` // the other side's
	PeerEvidence []string `json:"peer_evidence,omitempty"`
	Figures      []Figure `json:"figures,omitempty"`

	began time.Time
}

// Figure is something that was measured along the way: not a benchmark.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "us", "MiB/s", "bytes", "packets"
}

func newResult(role string) *Result {
	r := &Result{Schema: Schema, Role: role, Verdict: OK}
	for _, n := range steps {
		r.Steps = append(r.Steps, Step{Name: n, Verdict: NotReached})
	}
	return r
}

// step gives a step by its name.
func (r *Result) step(n Name) *Step {
	for i := range r.Steps {
		if r.Steps[i].Name == n {
			return &r.Steps[i]
		}
	}
	return nil
}

func (s *Step) saw(lines ...string) { s.Evidence = append(s.Evidence, lines...) }

func (s *Step) figure(name string, value float64, unit string) {
	s.Figures = append(s.Figures, Figure{name, value, unit})
}

// warn keeps a step from being ok, with the first thing that is wrong.
func (s *Step) warn(summary, remedy string) {
	if s.Verdict != Warn {
		s.Verdict, s.Summary, s.Remedy = Warn, summary, remedy
		return
	}
	s.saw(summary + ": " + remedy)
}
