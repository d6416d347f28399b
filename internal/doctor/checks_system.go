package doctor

// systemChecks look at the kernel, the limits and the rights, in the order in which
// remedies build on each other.
var systemChecks = []Check{
	{Name: "huge-pages", Group: "memory", Run: hugePages,
		About: "pages reserved that are larger than 4 KiB: a NIC translates, and the kernel pins, in fewer steps"},
}
