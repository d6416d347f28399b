package ebpfprobes

import "testing"

func TestHistogramCount(t *testing.T) {
	const most = 1<<32 - 1
	var h, sum Histogram
	countSlots(&h, []uint32{0, most, 2})
	sum.Add(&h)
	sum.Add(&h)
	if sum.Count != 2*(most+2) || sum.Slots[1] != 2*most || sum.Slots[2] != 4 {
		t.Errorf("%+v", sum)
	}
	var none Histogram
	if countSlots(&none, make([]uint64, 3)); none.Count != 0 || none.Slots != nil {
		t.Errorf("%+v", none)
	}
}
