package ebpfprobes

import (
	"context"
	"time"

	"github.com/peerdirect/peerdirect/verbs/nldev"
)

// devices names devices by the kernel's number: as they are called now, and those that
// have gone as they were called last. Their names change (rdma dev set).
func (s *session) devices() (map[uint32]string, error) {
	names, err := s.names("devices")
	if err != nil || len(names) == 0 {
		return names, err
	}
	for index, name := range devicesNow() {
		if _, ok := names[index]; ok {
			names[index] = name
		}
	}
	return names, nil
}

// devicesNow asks the kernel; what it does not answer the programs have noted.
func devicesNow() map[uint32]string {
	client, err := nldev.Open()
	if err != nil {
		return nil
	}
	defer client.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	list, err := client.Devices(ctx)
	if err != nil {
		return nil
	}
	names := make(map[uint32]string, len(list))
	for _, d := range list {
		names[d.Index] = d.Name
	}
	return names
}
