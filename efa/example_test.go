package efa_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
)

// Two devices in this process: one writes into the other's memory and hands it a
// number, by which the other knows that all the bytes are there. On two machines
// the devices are efa.Open's, and the addresses and the region travel by whatever
// the program talks by; nothing else changes.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fabric := device.NewFabric(device.FabricOptions{})
	defer fabric.Close()
	writer, err := open(fabric, "writer")
	if err != nil {
		log.Fatal(err)
	}
	defer writer.close()
	owner, err := open(fabric, "owner")
	if err != nil {
		log.Fatal(err)
	}
	defer owner.close()

	// Both need an address handle of the other: a device serves no strangers.
	to, err := writer.dev.CreateAH(owner.ep.Address().GID)
	if err != nil {
		log.Fatal(err)
	}
	defer to.Close()
	from, err := owner.dev.CreateAH(writer.ep.Address().GID)
	if err != nil {
		log.Fatal(err)
	}
	defer from.Close()

	// The notice takes a receive of the owner's, which it does not write to.
	receive := owner.ep.RecvBatch()
	defer receive.Close()
	receive.Recv(owner.mr.At(0, 1), 1)
	if err := receive.Post(); err != nil {
		log.Fatal(err)
	}

	copy(writer.mem, "straight into the other's memory")
	there := owner.ep.Address()
	batch := writer.ep.Batch()
	defer batch.Close()
	batch.WriteImm(to.To(there.QPN, there.QKey), writer.mr.At(0, 32), owner.mr.Remote().At(100), 7, 42)
	if err := batch.Post(); err != nil {
		log.Fatal(err)
	}

	for _, side := range []*side{writer, owner} {
		c, err := side.next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %v of %d bytes", side.dev.Name(), c.Op, c.Bytes)
		if c.Flags&efa.WithImm != 0 {
			fmt.Printf(", with the number %d: %s", c.Imm, owner.mem[100:132])
		}
		fmt.Println()
	}
	// Output:
	// writer: write of 0 bytes
	// owner: receive of a write of 32 bytes, with the number 7: straight into the other's memory
}

// side is a device with an endpoint and a region.
type side struct {
	dev *efa.Device
	ep  *efa.Endpoint
	mr  *efa.MR
	mem []byte
}

func open(fabric *device.Fabric, name string) (*side, error) {
	dev, err := efa.Embedded(fabric, device.Options{Name: name}) // or efa.Open("efa_0")
	if err != nil {
		return nil, err
	}
	s := &side{dev: dev, mem: make([]byte, 4096)} // a kernel's device wants verbs.NewBuffer's
	if s.ep, err = dev.CreateSRD(efa.SRDOptions{Notify: true}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.mr, err = dev.Register(s.mem, efa.LocalWrite|efa.RemoteWrite); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close closes in the reverse order of making; a device refuses to go first.
func (s *side) close() (err error) {
	if s.mr != nil {
		err = errors.Join(err, s.mr.Close())
	}
	if s.ep != nil {
		err = errors.Join(err, s.ep.Close())
	}
	return errors.Join(err, s.dev.Close())
}

// next waits for a completion.
func (s *side) next(ctx context.Context) (efa.Completion, error) {
	var done [1]efa.Completion
	for {
		if n, err := s.ep.Poll(done[:]); err != nil {
			return efa.Completion{}, err
		} else if n == 1 {
			return done[0], done[0].Err()
		}
		if err := s.ep.Wait(ctx); err != nil {
			return efa.Completion{}, err
		}
	}
}
