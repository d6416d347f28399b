package device

// waiting is a heap of messages by when they are due. A message's pos is its place.
type waiting []*message

func (h waiting) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h waiting) up(i int) {
	for i > 0 && h[i].due < h[(i-1)/2].due {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h waiting) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].due < h[c].due {
			c++
		}
		if h[i].due <= h[c].due {
			return
		}
		h.swap(i, c)
		i = c
	}
}

func (h *waiting) push(m *message) {
	m.pos = len(*h)
	*h = append(*h, m)
	h.up(m.pos)
}

func (h *waiting) remove(i int) *message {
	old := *h
	m, last := old[i], len(old)-1
	if i != last {
		old.swap(i, last)
	}
	old[last] = nil
	*h = old[:last]
	if i != last {
		h.down(i)
		h.up(i)
	}
	return m
}
