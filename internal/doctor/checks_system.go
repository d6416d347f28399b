package doctor

// systemChecks look at the kernel, the limits and the rights.
var systemChecks = []Check{}
