package verbs

import (
	"fmt"
	"strings"
)

// Access is what a region or queue pair allows (enum ibv_access_flags).
type Access uint32

const (
	LocalWrite      Access = 1 << 0
	RemoteWrite     Access = 1 << 1
	RemoteRead      Access = 1 << 2
	RemoteAtomic    Access = 1 << 3
	MWBind          Access = 1 << 4
	ZeroBased       Access = 1 << 5
	OnDemand        Access = 1 << 6
	HugeTLB         Access = 1 << 7
	FlushGlobal     Access = 1 << 8
	FlushPersistent Access = 1 << 9
	RelaxedOrdering Access = 1 << 20 // optional: dropped where unknown
)

func (a Access) String() string {
	return bitNames(uint64(a), []bitName{
		{uint64(LocalWrite), "LOCAL_WRITE"}, {uint64(RemoteWrite), "REMOTE_WRITE"},
		{uint64(RemoteRead), "REMOTE_READ"}, {uint64(RemoteAtomic), "REMOTE_ATOMIC"},
		{uint64(MWBind), "MW_BIND"}, {uint64(ZeroBased), "ZERO_BASED"}, {uint64(OnDemand), "ON_DEMAND"},
		{uint64(HugeTLB), "HUGETLB"}, {uint64(FlushGlobal), "FLUSH_GLOBAL"},
		{uint64(FlushPersistent), "FLUSH_PERSISTENT"}, {uint64(RelaxedOrdering), "RELAXED_ORDERING"},
	})
}

type bitName struct {
	bit  uint64
	name string
}

// bitNames prints a set of flags, unknown bits as a number.
func bitNames(v uint64, table []bitName) string {
	if v == 0 {
		return "none"
	}
	return strings.Join(bitList(v, table), "|")
}

func bitList(v uint64, table []bitName) []string {
	var out []string
	for _, b := range table {
		if v&b.bit != 0 {
			out = append(out, b.name)
			v &^= b.bit
		}
	}
	if v != 0 {
		out = append(out, fmt.Sprintf("%#x", v))
	}
	return out
}
