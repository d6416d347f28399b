// Package uname tells which kernel runs.
package uname

import "golang.org/x/sys/unix"

// Release is the kernel's, as "6.12.117"; "" if it does not say.
func Release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
