package doctor

// pathChecks look at accelerators, exporters, and the ways from these to NICs.
var pathChecks = []Check{}
