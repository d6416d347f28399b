package pictures

// pathPicture shows the two ways between accelerators of two machines, and which
// command looks at which part of them.
func pathPicture() string {
	c := &canvas{width: 900, height: 400}
	for side, at := range []int{20, 540} {
		accelerator, nic := at+20, at+210
		if side == 1 {
			accelerator, nic = nic, accelerator
		}
		c.box("box", at, 40, 340, 240)
		c.text("head", "start", at+12, 30, []string{"node 0", "node 1"}[side])
		c.box("hot", accelerator, 60, 110, 64)
		c.text("", "middle", accelerator+55, 88, "accelerator")
		c.text("small", "middle", accelerator+55, 108, "its own memory")
		c.box("hot", nic, 60, 110, 64)
		c.text("", "middle", nic+55, 88, "NIC")
		c.text("small", "middle", nic+55, 108, "memory region")
		c.box("part", at+105, 150, 130, 30)
		c.text("", "middle", at+170, 170, "PCIe switch")
		c.box("part", at+40, 212, 260, 52)
		c.text("", "middle", at+170, 234, "root complex, host memory")
		c.text("small", "middle", at+170, 252, "copy down, copy up")
	}
	// Straight: accelerator, switch, NIC, wire, NIC, switch, accelerator.
	c.arrow("good", "M95 126V158Q95 165 102 165H125")
	c.arrow("good", "M255 165H278Q285 165 285 158V130")
	c.arrow("good", "M340 92H556")
	c.arrow("good", "M615 126V158Q615 165 622 165H645")
	c.arrow("good", "M775 165H798Q805 165 805 158V130")
	c.text("goodtext", "middle", 450, 76, "RDMA WRITE")
	c.text("small", "middle", 450, 114, "dma-buf registered,", "peer to peer")
	// The detour, from below.
	c.arrow("bad", "M75 126V208")
	c.arrow("bad", "M310 208V130")
	c.arrow("bad", "M590 126V208")
	c.arrow("bad", "M830 208V130")
	c.text("badtext", "middle", 450, 232, "the detour")
	c.text("small", "middle", 450, 250, "a copy through host")
	c.text("small", "middle", 450, 266, "memory on each side")
	// Who looks where.
	for i, part := range [][3]string{
		{"dmabuf", "is the memory exported,", "would the kernel register it?"},
		{"topo", "which NIC is near,", "what costs bandwidth?"},
		{"doctor", "why is the direct path off,", "or slow?"},
		{"trace", "what registering costs,", "where completions wait"},
		{"transfer", "pages moved and verified;", "perf, bench: how fast"},
	} {
		x := 20 + 175*i
		c.text("code", "start", x, 320, "peerdirect "+part[0])
		c.text("small", "start", x, 340, part[1], part[2])
	}
	c.text("small", "start", 20, 386, "Direct is not always possible. Each command says which part is in the way, by what evidence, and what to do.")
	return c.svg("The direct path from an accelerator through PCIe switch and NIC to the NIC and accelerator of another machine, the detour through host memory on each side, and the commands that look at each part.")
}
