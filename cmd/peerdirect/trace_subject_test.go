package main

import (
	"os"
	"os/exec"
	"testing"
)

func TestParseStat(t *testing.T) {
	rest := " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 "
	for text, want := range map[string]bool{
		"7 (a) Z 1) S" + rest + "1 0 99 5": false,
		"7 (a) Z" + rest + "1 0 99 5":      true,
		"7 (a) Z" + rest + "3 0 99 5":      false,
		"7 (a) X" + rest + "0 0 99 5":      true,
	} {
		if began, ended := parseStat(text); began != "99" || ended != want {
			t.Errorf("%q: %q, %v", text, began, ended)
		}
	}
}

func TestTracedProcessEnds(t *testing.T) {
	p, err := findProcess(os.Getpid())
	if err != nil || p.ended() {
		t.Fatal(p, err)
	}
	p.began += "0" // another has its number
	if !p.ended() {
		t.Error("another process is taken for it")
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := findProcess(child.Process.Pid)
	if err != nil || c.ended() {
		t.Error(c, err)
	}
	in.Close()
	child.Wait()
	if !c.ended() {
		t.Error("it goes on")
	}
}
