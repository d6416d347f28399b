package pictures

// housePicture shows the packages, each above what it may import.
func housePicture() string {
	c := &canvas{width: 900, height: 560}
	room := func(class string, x, y, w int, name, what string) {
		c.box(class, x, y, w, 50)
		c.text("code", "middle", x+w/2, y+21, name)
		c.text("small", "middle", x+w/2, y+39, what)
	}
	c.box("box", 20, 20, 860, 64)
	c.text("code", "start", 36, 46, "cmd/peerdirect")
	c.text("small", "start", 36, 66, "one file a command: parse, call, print")
	c.text("small", "end", 864, 46, "internal/doctor, inventory, perf, tracereport, bench/…")
	c.text("small", "end", 864, 66, "what commands do, and is no library")

	c.box("box", 20, 112, 860, 196)
	c.text("head", "start", 36, 136, "moving")
	c.text("small", "end", 864, 136, "the only rooms that join memory, topology and queues")
	room("part", 36, 150, 150, "transfer/pages", "pages, verified")
	room("part", 200, 150, 200, "transfer/patterns/…", "kvcache, ring, weights")
	room("part", 414, 150, 150, "transfer/sim", "virtual clock")
	room("part", 36, 222, 250, "transfer/engine", "rails, peers, notices, failover")
	room("part", 300, 222, 170, "transfer/control", "peers prove themselves")
	room("hot", 484, 222, 190, "transfer", "the rail: one NIC's queues")
	room("part", 688, 222, 176, "transfer/mrcache", "kept registrations")

	c.box("box", 20, 336, 860, 128)
	c.text("head", "start", 36, 360, "instruments and objects")
	c.text("small", "end", 864, 360, "verbs, dmabuf, pci know nothing of each other; ebpfprobes asks verbs/nldev for names")
	room("part", 36, 374, 130, "efa", "SRD and UD")
	room("part", 180, 374, 160, "verbs", "libibverbs")
	room("part", 354, 374, 150, "dmabuf", "exporters, rules")
	room("part", 518, 374, 150, "pci", "topology, findings")
	room("part", 682, 374, 182, "ebpfprobes", "tracing sessions")
	c.text("small", "start", 36, 448, "efa rests on verbs and efa/device")

	c.box("box", 20, 492, 860, 50)
	c.text("head", "start", 36, 522, "below")
	c.text("code", "middle", 480, 514, "efa/wire  efa/device  efa/vfiouser  internal/dl  internal/errname  internal/umem  …")
	c.text("small", "middle", 480, 532, "formats; the software EFA device; shared libraries at run time")
	for _, y := range []int{84, 308, 464} {
		c.arrow("line", "M450 "+itoa(y)+"v27")
	}
	return c.svg("The packages from the command down to the formats; imports run downwards only.")
}

// writePicture follows one WRITE from the program to the doorbell.
func writePicture() string {
	c := &canvas{width: 900, height: 548}
	steps := [][4]string{
		{"program", "Peer.Write(Move)", "pages or segments of a region, and where they go in the peer's", "any goroutine"},
		{"transfer/engine", "jobs", "checked against the grant; a share for each worker that has rails to the peer", "the caller's goroutine"},
		{"transfer/engine", "worker's queue", "one channel; state that is written belongs to one worker only", "hand-over"},
		{"transfer/engine", "pieces, staged", "at most MaxPiece bytes, to a rail that is near and has room; up to Batch requests", "worker's thread"},
		{"transfer", "Rail.Post(batch)", "requests: local key and address, remote key and address, id", "worker's thread"},
		{"efa, verbs", "work entries", "efa: stored in the ring, in Go; verbs: one call into C a batch", "worker's thread"},
		{"NIC", "doorbell", "one store for all entries of the batch; from here on the NIC reads memory by itself", ""},
		{"transfer", "Rail.Poll", "completions, in any order; what failed waits for the fence, and goes by another rail", "worker's thread"},
		{"transfer/engine", "notice", "posted when all pieces have completed: an immediate, which the peer counts once", "the peer's worker"},
	}
	for i, s := range steps {
		y := 20 + 58*i
		class := "part"
		if i == 6 {
			class = "hot"
		}
		c.text("code", "end", 150, y+28, s[0])
		c.box(class, 165, y, 190, 44)
		c.text("", "middle", 260, y+27, s[1])
		c.text("small", "start", 370, y+20, s[2])
		c.text("small", "start", 370, y+37, s[3])
		if i+1 < len(steps) {
			c.arrow("line", "M260 "+itoa(y+44)+"v13")
		}
	}
	return c.svg("One WRITE, from the program's call through engine and rail to the doorbell, and back to the notice that the peer counts.")
}
