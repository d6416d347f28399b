// Package objects holds the compiled BPF programs of ../../bpf, by architecture, and
// the Go types of their maps. Everything but this file is generated; make generate
// does it, with the clang that scripts/deps names.
package objects

//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target amd64,arm64 -cflags "-mcpu=v3 -O2 -g -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu" -type event -type event_stack -type snapshot -type counter -type phase -type operation -type kind Registrations ../../bpf/registrations.bpf.c
//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target amd64,arm64 -cflags "-O2 -g -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu" -type wait Completions ../../bpf/completions.bpf.c
//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target amd64,arm64 -cflags "-O2 -g -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu" -type birth -type resource -type counter Lifecycle ../../bpf/lifecycle.bpf.c
//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target amd64,arm64 -cflags "-O2 -g -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu" -type event -type change Connections ../../bpf/connections.bpf.c
//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target amd64,arm64 -cflags "-O2 -g -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu" -type event -type class -type command Errors ../../bpf/errors.bpf.c
//go:generate go tool bpf2go -cc clang-16 -strip llvm-strip-16 -target amd64,arm64 -cflags "-O2 -g -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu" -type event -type sighting Syscalls ../../bpf/syscalls.bpf.c
