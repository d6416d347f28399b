// Package symbols tells which functions a process's stack has: it unwinds a stack that
// was copied, by the call-frame information of the files that the process has mapped
// (.eh_frame), Go's own tables, or frame pointers, and names addresses by the files'
// symbols. What it needs of a process it takes when it first sees it, so that it can
// tell of one that is gone.
package symbols
