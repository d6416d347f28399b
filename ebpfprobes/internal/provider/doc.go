// Package provider finds, in the user-space drivers of RDMA (libmlx5, libefa, …) that
// a process has mapped, the functions that post work and poll for completions. They
// have no symbols: programs reach them through pointers, and distributions strip the
// libraries.
//
// There are two ways, and they check each other. [Live] reads the pointers where the
// process keeps them, in its contexts, queues and completion queues, whose layout is
// public. [Library.Operations] reads the table in the library's file that the provider
// hands to libibverbs; its layout is private and differs between versions.
package provider
