//go:build linux

// Package linux says which packages need Linux: they import it, and a build for
// another system then names it instead of what it did not find there.
package linux
