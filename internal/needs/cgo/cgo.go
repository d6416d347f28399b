//go:build cgo

// Package cgo says which packages need cgo: they import it, and a build without cgo
// (CGO_ENABLED=0, or no C compiler) then names it instead of what it did not find.
package cgo
