package objects

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest is the SHA-256 of this architecture's objects, one after the other, in hex:
// it tells whether two programs attach the same ones.
func Digest() string {
	h := sha256.New()
	for _, object := range [][]byte{
		_RegistrationsBytes, _CompletionsBytes, _LifecycleBytes, _ConnectionsBytes, _ErrorsBytes, _SyscallsBytes,
	} {
		h.Write(object)
	}
	return hex.EncodeToString(h.Sum(nil))
}
