package ebpfprobes

import "github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"

// ObjectDigest is the SHA-256 of the BPF objects in this program, in hex: two
// programs with the same one attach the same code.
func ObjectDigest() string { return objects.Digest() }
