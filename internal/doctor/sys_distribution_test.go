package doctor

import "testing"

func TestDistribution(t *testing.T) {
	for text, want := range map[string]distribution{
		"ID=debian\n": debianLike,
		"NAME=Mint\nID=mint\nID_LIKE=\"ubuntu debian\"\n": debianLike,
		"ID=\"amzn\"\nID_LIKE=\"fedora\"\n":               rhelLike,
		"ID='rocky'\nID_LIKE='rhel centos'\n":             rhelLike,
		"ID=arch\nNAME=fedora\n":                          otherDistribution,
		"":                                                otherDistribution,
	} {
		if got := parseDistribution(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
