// Package sites holds the probe sites of package marker: it needs the C toolchain's
// assembler and linker for their notes, and marker an assembly file of Go's, which a
// package has only without cgo.
package sites
