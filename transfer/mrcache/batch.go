package mrcache

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// GetAll gives a registration of each range on each of the rails, which are those
// near the memory: registering with the others costs a multiple. On one rail the
// ranges are registered one after the other in ascending order of address,
// which drivers do in a fraction of the time of the descending one; the rails
// register at once, as far as Options.Concurrency lets them. Ranges that touch
// are registered together where the policy lets them be.
//
// The result has the order of the arguments: first by rail, then by range. If one
// fails, or ctx ends before the last, all are released.
func (c *Cache) GetAll(ctx context.Context, rails []int, ranges []Range, access Access) ([][]Ref, error) {
	for i, n := range rails {
		if uint(n) >= uint(len(c.rails)) || slices.Contains(rails[:i], n) {
			return nil, &Error{Op: "register", Err: ErrInvalid, Detail: fmt.Sprintf("rail %d: there are %d, each once", n, len(c.rails))}
		}
	}
	order := make([]int, len(ranges))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &ranges[a], &ranges[b]
		return cmp.Or(cmp.Compare(x.Alloc.Space, y.Alloc.Space), cmp.Compare(x.Alloc.ID, y.Alloc.ID), cmp.Compare(x.Addr, y.Addr))
	})
	out := make([][]Ref, len(rails))
	errs := make([]error, len(rails))
	var all sync.WaitGroup
	for i, n := range rails {
		out[i] = make([]Ref, len(ranges))
		all.Go(func() { errs[i] = c.getSorted(ctx, n, ranges, order, access, out[i]) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			for _, refs := range out {
				for k := range refs {
					refs[k].Release()
				}
			}
			return nil, err
		}
	}
	return out, nil
}

func (c *Cache) getSorted(ctx context.Context, rail int, ranges []Range, order []int, access Access, out []Ref) (err error) {
	for at := 0; at < len(order); {
		if err := ctx.Err(); err != nil {
			return err
		}
		// The run of ranges that touch each other.
		run := ranges[order[at]]
		next := at + 1
		for ; next < len(order); next++ {
			r := &ranges[order[next]]
			end := max(run.End(), r.End())
			if r.Alloc != run.Alloc || r.Addr > run.End() || r.End() < r.Addr || end-run.Addr > c.policy.MaxMerged || c.policy.NoMerge || r.Base != run.Base || r.Size != run.Size {
				break
			}
			run.Length = end - run.Addr
		}
		var whole Ref
		if next > at+1 {
			if whole, err = c.Get(rail, run, access); err != nil {
				whole = Ref{} // too large for a budget, perhaps: the parts may go
			}
		}
		for ; at < next; at++ {
			if out[order[at]], err = c.Get(rail, ranges[order[at]], access); err != nil {
				whole.Release()
				return err
			}
		}
		whole.Release()
	}
	return nil
}
