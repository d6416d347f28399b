//go:build lab

package pci_test

import (
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/names"
)

func init() { pci.FillNames = names.Fill }
