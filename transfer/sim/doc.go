// Package sim runs the engine, unchanged, on a virtual clock and a modelled
// fabric. What it gives are figures of a simulation, not of a machine: whoever
// quotes one says so.
//
// Modelled are the NICs (rate, time for each request, depth), the way between
// them (latency, jitter, a core that may be oversubscribed), the far side's port,
// which takes one message after the other, the control connections' latency, and
// the workers: each is a core of its own, whose time goes by what it does, at
// prices that were measured ([Costs]). Everything else is the engine: what it cuts,
// posts, counts and does again.
//
//	w, err := sim.New(sim.P5, 2, sim.Model{}, sim.Options{})
//	err = w.Join(0, 1)
//	t, err := w.Node(0).Write(1, move)
//	w.Run()
//
// docs/simulation.md tells what each number is from, and what is left out.
package sim
