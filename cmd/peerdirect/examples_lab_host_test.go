//go:build lab_host

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostExamples runs those that start the lab's machines, with the program that
// 'make build' left: it has to be what the machines start, too. A shell has a
// terminal, and what is cleaned is no cache that others need.
func TestHostExamples(t *testing.T) {
	program, err := filepath.Abs("../../bin/peerdirect")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: 'make build' makes it", err)
	}
	place := examplePlace{name: "lab", program: program, names: strings.NewReplacer(), prepare: func(t *testing.T, dir, _ string) {
		if err := os.Mkdir(filepath.Join(dir, "results"), 0o700); err != nil {
			t.Fatal(err)
		}
	}, wrap: func(e example, line string) string {
		switch e.command {
		case "lab shell":
			return "echo exit | script -qec '" + line + "' /dev/null"
		case "lab clean":
			return "XDG_CACHE_HOME=$PWD " + line
		}
		return line
	}}
	place.run(t)
}
