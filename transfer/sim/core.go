package sim

// core is a worker's: its time goes by what the worker does, and while it does
// nothing it waits for the next completion, as one that polls does.
type core struct {
	node    *Node
	worker  int
	index   int32
	nics    []*NIC
	clock   Time
	given   int // what it was given since its last step
	planned bool
	next    Time // its next step, if planned
	busy    Time // what it has worked
	steps   uint64
}

// wake plans a step at a time, or as soon as the core is free then.
func (c *core) wake(at Time) {
	w := c.node.w
	at = max(at, c.clock)
	if w.active == c || c.planned && c.next <= at {
		return // it looks by itself before it rests, or earlier than that
	}
	c.planned, c.next = true, at
	w.todo.push(at, eventStep, c.index)
}

// step has the worker take a step. Steps that were planned and brought forward
// since are none.
func (c *core) step(at Time) {
	if !c.planned || c.next != at {
		return
	}
	w := c.node.w
	c.planned, c.clock = false, at
	given := c.given
	c.given = 0
	w.active = c
	c.clock += w.prices.step + Time(given)*w.prices.command
	did := c.node.engine.Step(c.worker)
	w.active = nil
	c.steps++
	if did || c.given > 0 {
		c.busy += c.clock - at
		c.wake(c.clock)
		return
	}
	c.clock = at // it looked in vain: that is how it waits
	for _, n := range c.nics {
		if len(n.done.heap) > 0 {
			c.wake(n.done.heap[0].at)
		}
	}
}
