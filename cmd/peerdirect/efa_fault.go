package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// adminFaultNames are the faults that are no status.
var adminFaultNames = []string{"timeout", "no-interrupt", "bad-checksum"}

// parseAdminFault reads COMMAND:FAULT[:COUNT].
func parseAdminFault(text string) (device.AdminFault, error) {
	fault := device.AdminFault{Count: 1}
	fields := strings.Split(text, ":")
	if len(fields) < 2 || len(fields) > 3 {
		return fault, errors.New("wants COMMAND:FAULT[:COUNT]")
	}
	if fields[0] != "ANY" {
		for op := wire.Opcode(1); op <= wire.MaxOpcode; op++ {
			if op.String() == fields[0] {
				fault.Opcode = op
			}
		}
		if fault.Opcode == 0 {
			return fault, fmt.Errorf("no admin command %s", fields[0])
		}
	}
	switch slices.Index(adminFaultNames, fields[1]) {
	case 0:
		fault.NoCompletion = true
	case 1:
		fault.NoInterrupt = true
	case 2:
		fault.BadChecksum = true
	default:
		for status := wire.AdminResourceAllocationFailure; status <= wire.AdminResourceBusy; status++ {
			if status.String() == fields[1] {
				fault.Status = status
			}
		}
		if fault.Status == 0 {
			return fault, fmt.Errorf("no fault %s", fields[1])
		}
	}
	if len(fields) == 3 {
		n, err := strconv.Atoi(fields[2])
		if err != nil || n < 1 {
			return fault, fmt.Errorf("a count of %s", fields[2])
		}
		fault.Count = n
	}
	return fault, nil
}
