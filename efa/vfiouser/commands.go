package vfiouser

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"syscall"
)

var le = binary.LittleEndian

// handle carries out the message in c.body and c.fds, and appends what the reply
// holds to c.out. A file is passed along with the reply.
func (c *session) handle(command Command) (*os.File, error) {
	switch command {
	case CmdVersion:
		return nil, c.version()
	case CmdDMAMap:
		return nil, c.dmaMap()
	case CmdDMAUnmap:
		return nil, c.dmaUnmap()
	case CmdGetInfo:
		return nil, c.info()
	case CmdGetRegionInfo:
		return c.regionInfo()
	case CmdGetIRQInfo:
		return nil, c.irqInfo()
	case CmdSetIRQs:
		return nil, c.setIRQs()
	case CmdRegionRead:
		return nil, c.regionRead()
	case CmdRegionWrite:
		return nil, c.regionWrite()
	case CmdWriteMulti:
		return nil, c.writeMulti()
	case CmdReset:
		c.device.Reset()
		return nil, nil
	}
	return nil, syscall.ENOTTY
}

// capabilities that this server answers a client that knows them. A reply must
// not hold any that the client did not propose.
var capabilities = map[string]any{
	"max_msg_fds":        maxFDs,
	"max_data_xfer_size": maxTransfer,
	"max_dma_maps":       maxMaps,
	"pgsizes":            pageSize,
	"write_multiple":     true,
}

// version agrees on version 0.0, which is what this server needs: what later
// minor versions add, a server may leave out.
func (c *session) version() error {
	if c.negotiated || len(c.body) < versionSize || le.Uint16(c.body) != 0 {
		return syscall.EINVAL
	}
	var proposed struct {
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	if data := c.body[versionSize:]; len(data) > 0 {
		text, rest, ended := bytes.Cut(data, []byte{0})
		if !ended || len(rest) > 0 || json.Unmarshal(text, &proposed) != nil {
			return syscall.EINVAL
		}
	}
	agreed := map[string]any{}
	for name, value := range capabilities {
		if _, ok := proposed.Capabilities[name]; ok {
			agreed[name] = value
		}
	}
	text, err := json.Marshal(map[string]any{"capabilities": agreed})
	if err != nil {
		return err
	}
	c.out = append(c.out, 0, 0, 0, 0) // major, minor
	c.out = append(c.out, text...)
	c.out = append(c.out, 0)
	c.negotiated = true
	return nil
}

// Flags of DMA_MAP, and of DMA_UNMAP (VFIO_DMA_UNMAP_FLAG_ALL of linux/vfio.h).
const (
	dmaReadable = 1
	dmaWritable = 2
	unmapAll    = 2
)

func (c *session) dmaMap() error {
	if len(c.body) != dmaMapSize || le.Uint32(c.body) < dmaMapSize || len(c.fds) > 1 {
		return syscall.EINVAL
	}
	flags := le.Uint32(c.body[4:])
	if flags&^(dmaReadable|dmaWritable) != 0 {
		return syscall.EINVAL
	}
	fd := -1
	if len(c.fds) == 1 {
		fd = c.fds[0]
	}
	if flags == 0 {
		fd = -1 // in the way of other maps, and of no use
	}
	// A mapping outlives its descriptor, which closes with the message.
	return c.server.memory.add(le.Uint64(c.body[16:]), le.Uint64(c.body[24:]), le.Uint64(c.body[8:]),
		flags&dmaWritable != 0, fd)
}

func (c *session) dmaUnmap() error {
	if len(c.body) != dmaUnmapSize || le.Uint32(c.body) < dmaUnmapSize || len(c.fds) > 0 {
		return syscall.EINVAL
	}
	addr, size := le.Uint64(c.body[8:]), le.Uint64(c.body[16:])
	switch le.Uint32(c.body[4:]) {
	case 0:
		if err := c.server.memory.remove(addr, size); err != nil {
			return err
		}
	case unmapAll:
		if addr != 0 || size != 0 {
			return syscall.EINVAL
		}
		c.server.memory.clear()
	default:
		return syscall.EINVAL
	}
	c.out = append(c.out, c.body...) // the reply is the request
	return nil
}

// Flags of vfio_device_info.
const (
	deviceReset = 1
	devicePCI   = 2
)

func (c *session) info() error {
	if len(c.body) != infoSize || le.Uint32(c.body) < infoSize || len(c.fds) > 0 {
		return syscall.EINVAL
	}
	c.out = le.AppendUint32(c.out, infoSize)
	c.out = le.AppendUint32(c.out, deviceReset|devicePCI)
	c.out = le.AppendUint32(c.out, numRegions)
	c.out = le.AppendUint32(c.out, numInterrupts)
	return nil
}

// Flags of vfio_region_info, and the capability that lists what of a region may
// be mapped (VFIO_REGION_INFO_CAP_SPARSE_MMAP, version 1).
const (
	regionReadable = 1
	regionWritable = 2
	regionMap      = 4
	regionCaps     = 8

	capSparseMap       = 1
	sparseMapHeadSize  = 16
	sparseMapEntrySize = 16
)

func (c *session) regionInfo() (*os.File, error) {
	if len(c.body) < regionInfoSize || len(c.fds) > 0 {
		return nil, syscall.EINVAL
	}
	room, index := le.Uint32(c.body), le.Uint32(c.body[8:])
	if room < regionInfoSize || index >= numRegions {
		return nil, syscall.EINVAL
	}
	size := c.device.Region(int(index))
	var flags, capOffset uint32
	var file *os.File
	var areas []Area
	if size > 0 {
		flags = regionReadable | regionWritable
		if m, ok := c.device.(Mapper); ok {
			if file, areas = m.MapRegion(int(index)); file != nil {
				flags |= regionMap
			}
		}
	}
	full := uint32(regionInfoSize)
	if len(areas) > 0 {
		flags |= regionCaps
		full += sparseMapHeadSize + uint32(len(areas))*sparseMapEntrySize
		capOffset = regionInfoSize
	}
	fits := room >= full
	if !fits {
		// argsz tells the client what room to ask again with.
		file, capOffset = nil, 0
	}
	c.out = le.AppendUint32(c.out, full)
	c.out = le.AppendUint32(c.out, flags)
	c.out = le.AppendUint32(c.out, index)
	c.out = le.AppendUint32(c.out, capOffset)
	c.out = le.AppendUint64(c.out, size)
	c.out = le.AppendUint64(c.out, 0) // the file's offset
	if fits && len(areas) > 0 {
		c.out = le.AppendUint16(c.out, capSparseMap)
		c.out = le.AppendUint16(c.out, 1)
		c.out = le.AppendUint32(c.out, 0) // no capability follows
		c.out = le.AppendUint32(c.out, uint32(len(areas)))
		c.out = le.AppendUint32(c.out, 0)
		for _, a := range areas {
			c.out = le.AppendUint64(c.out, a.Offset)
			c.out = le.AppendUint64(c.out, a.Size)
		}
	}
	return file, nil
}

// regionAccess checks the head of an access: what it gives lies in the region.
func (c *session) regionAccess(b []byte, most uint32) (index int, offset uint64, count uint32, err error) {
	offset = le.Uint64(b)
	region := le.Uint32(b[8:])
	count = le.Uint32(b[12:])
	if region >= numRegions || count > most {
		return 0, 0, 0, syscall.EINVAL
	}
	size := c.device.Region(int(region))
	if offset > size || uint64(count) > size-offset {
		return 0, 0, 0, syscall.EINVAL
	}
	return int(region), offset, count, nil
}

func (c *session) regionRead() error {
	if len(c.body) != regionAccessSize {
		return syscall.EINVAL
	}
	index, offset, count, err := c.regionAccess(c.body, maxTransfer)
	if err != nil {
		return err
	}
	c.out = append(c.out, c.body...)
	at := len(c.out)
	c.out = append(c.out, make([]byte, count)...)
	return c.device.ReadRegion(index, offset, c.out[at:])
}

func (c *session) regionWrite() error {
	if len(c.body) < regionAccessSize {
		return syscall.EINVAL
	}
	index, offset, count, err := c.regionAccess(c.body, maxTransfer)
	if err != nil {
		return err
	}
	if uint32(len(c.body)-regionAccessSize) != count {
		return syscall.EINVAL
	}
	c.out = append(c.out, c.body[:regionAccessSize]...)
	return c.device.WriteRegion(index, offset, c.body[regionAccessSize:])
}

// writeMulti carries out several writes of up to 8 bytes each, in order, until
// one fails. QEMU packs them so when its queue to the server is long.
func (c *session) writeMulti() error {
	if len(c.body) < multiCountSize {
		return syscall.EINVAL
	}
	n, writes := le.Uint64(c.body), c.body[multiCountSize:]
	if n > maxMessage || uint64(len(writes)) != n*multiWriteSize {
		return syscall.EINVAL
	}
	for i := range int(n) {
		w := writes[i*multiWriteSize:][:multiWriteSize]
		index, offset, count, err := c.regionAccess(w, multiWriteData)
		if err != nil {
			return err
		}
		if err := c.device.WriteRegion(index, offset, w[regionAccessSize:][:count]); err != nil {
			return err
		}
	}
	c.out = le.AppendUint64(c.out, n)
	return nil
}
