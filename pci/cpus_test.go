package pci

import (
	"slices"
	"strings"
	"testing"
)

func TestListsOfCPUs(t *testing.T) {
	for _, c := range []struct {
		text  string
		want  CPUs
		again string // as the kernel would print it
	}{
		{"", CPUs{}, ""},
		{"\n", CPUs{}, ""},
		{"0", CPUs{0}, "0"},
		{"0-3,8\n", CPUs{0, 1, 2, 3, 8}, "0-3,8"},
		{"0,2,4-8,100-102", CPUs{0, 2, 4, 5, 6, 7, 8, 100, 101, 102}, "0,2,4-8,100-102"},
		{"0-9:2/4", CPUs{0, 1, 4, 5, 8, 9}, "0-1,4-5,8-9"},
		{"8,0-2,1", CPUs{0, 1, 2, 8}, "0-2,8"},
		{" 1 , 2 ", CPUs{1, 2}, "1-2"},
	} {
		got, err := ParseCPUs(c.text)
		if err != nil || got == nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %#v, %v; want %v", c.text, got, err, c.want)
		}
		if got.String() != c.again {
			t.Errorf("%q is printed %q, want %q", c.text, got, c.again)
		}
	}
	for _, bad := range []string{",", "0,", "a", "-1", "3-1", "0-", "0-4000000000", "99999999999999999999", "0-3:0/4", "0-3:4/2", "0-3:2", "0x3", "1 2"} {
		if got, err := ParseCPUs(bad); err == nil || got != nil {
			t.Errorf("%q: %v, %v; want an error", bad, got, err)
		}
	}
	if s := CPUs(nil).String(); s != "" {
		t.Errorf("unknown is printed %q", s)
	}
}

func TestAListThatRepeatsItselfStaysSmall(t *testing.T) {
	got, err := ParseCPUs(strings.Repeat("0-65535,", 300) + "0")
	if err != nil || len(got) != maxCPU+1 || cap(got) > 16*(maxCPU+1) {
		t.Errorf("%d CPUs in room for %d, %v", len(got), cap(got), err)
	}
}

func FuzzParseCPUs(f *testing.F) {
	for _, s := range []string{"", "0-3,8", "0-31:2/8", "8,0-2,1", "3-1", "0,2,4-8,100-102"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCPUs(s)
		if err != nil {
			return
		}
		if !slices.IsSorted(c) || len(c) > 0 && (c[0] < 0 || c[len(c)-1] > maxCPU) {
			t.Fatalf("%q gives %v", s, c)
		}
		if again, err := ParseCPUs(c.String()); err != nil || !slices.Equal(again, c) {
			t.Fatalf("%q is printed %q, which reads %v, %v", s, c, again, err)
		}
	})
}
