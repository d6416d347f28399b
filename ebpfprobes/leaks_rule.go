package ebpfprobes

// sample is what one interval saw of a stack's objects.
type sample struct {
	survivors uint64 // at its end
	ended     uint64 // survivors that ended in it
}

// verdict judges a history of samples, the oldest first, with a window of n intervals.
//
// Objects younger than an interval are not looked at: a program that registers and
// deregisters all the time has any number of them. Survivors are what leaks: they become
// more, and none of them ends. A cache that fills looks alike until it is full, which is
// why they have to become more until now; one that is full ends some for those that it
// makes. Where some of a stack's objects leak and others do not, more is waited for.
func verdict(history []sample, n int) Verdict {
	if rises, fell, ended, ok := window(history, n); ok && !fell && ended == 0 && rises > n/2 {
		return Leaking
	}
	if rises, fell, _, ok := window(history, 3*n); ok && !fell && rises >= 2*n {
		return Growing
	}
	return Steady
}

// window looks at the last n intervals. ok is false if there are not as many, or nothing
// has risen in the last two.
func window(history []sample, n int) (rises int, fell bool, ended uint64, ok bool) {
	if n < 1 || len(history) < n+1 {
		return 0, false, 0, false
	}
	last := history[len(history)-n-1:]
	for i := 1; i < len(last); i++ {
		switch {
		case last[i].survivors < last[i-1].survivors:
			fell = true
		case last[i].survivors > last[i-1].survivors:
			rises++
			ok = ok || i >= len(last)-2
		}
		ended += last[i].ended
	}
	return rises, fell, ended, ok
}
