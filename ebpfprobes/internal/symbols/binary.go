package symbols

import (
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Binary is a program or a library, as its file has it.
type Binary struct {
	file   *os.File
	elf    *elf.File
	frames *frameTable
	golang *goTable

	named     bool // functions were read
	functions []function
}

type function struct {
	start, size uint64
	name        string
}

// openBinary takes the file over.
func openBinary(f *os.File) (*Binary, error) {
	e, err := elf.NewFile(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	b := &Binary{file: f, elf: e}
	b.frames = readFrameTable(b)
	b.golang = readGoTable(b)
	return b, nil
}

func (b *Binary) close() error { return b.file.Close() }

// address gives the address in the file's own terms of what is at an offset in it.
func (b *Binary) address(offset uint64) (uint64, bool) {
	for _, p := range b.elf.Progs {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset < p.Off+p.Filesz {
			return offset - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// mostRead bounds what a broken file can make of it.
const mostRead = 256 << 20

// bytes reads what is at an address: fewer if the file's part ends before.
func (b *Binary) bytes(address uint64, n int) ([]byte, error) {
	for _, p := range b.elf.Progs {
		if p.Type != elf.PT_LOAD || address < p.Vaddr || address >= p.Vaddr+p.Filesz {
			continue
		}
		n = int(min(uint64(n), p.Vaddr+p.Filesz-address))
		if n < 0 || n > mostRead {
			return nil, fmt.Errorf("%d bytes at address %#x: that is no table of frames", n, address)
		}
		data := make([]byte, n)
		_, err := p.ReadAt(data, int64(address-p.Vaddr))
		return data, err
	}
	return nil, fmt.Errorf("address %#x is not in the file", address)
}

// name gives the function that an address is in.
func (b *Binary) name(address uint64) (name string, offset uint64, ok bool) {
	if b.golang != nil {
		if name, start, ok := b.golang.name(address); ok {
			return name, address - start, true
		}
	}
	b.readFunctions()
	i := sort.Search(len(b.functions), func(i int) bool { return b.functions[i].start > address }) - 1
	for ; i >= 0; i-- {
		f := b.functions[i]
		// Hand-written assembly may have no size: it reaches to the next function.
		if address < f.start+f.size || f.size == 0 {
			return f.name, address - f.start, true
		}
		if i == 0 || b.functions[i-1].start != f.start {
			break
		}
	}
	return "", 0, false
}

// readFunctions takes the most that there is: the file's own symbols, those of its
// debugging file, or what a stripped file exports.
func (b *Binary) readFunctions() {
	if b.named {
		return
	}
	b.named = true
	list, err := b.elf.Symbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		if debug, e := os.Open(b.debugFile("/usr/lib/debug")); e == nil {
			if d, e := elf.NewFile(debug); e == nil {
				list, err = d.Symbols()
			}
			debug.Close()
		}
	}
	if err != nil || len(list) == 0 {
		list, _ = b.elf.DynamicSymbols()
	}
	for _, s := range list {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && s.Value != 0 {
			b.functions = append(b.functions, function{s.Value, s.Size, s.Name})
		}
	}
	sort.SliceStable(b.functions, func(i, j int) bool { return b.functions[i].start < b.functions[j].start })
}

// debugFile is where distributions put symbols that were stripped off (gdb's manual,
// "Debugging Information in Separate Files").
func (b *Binary) debugFile(root string) string {
	id := b.BuildID()
	if len(id) < 3 {
		return ""
	}
	return filepath.Join(root, ".build-id", id[:2], id[2:]+".debug")
}

// BuildID is the linker's mark of the file, in hexadecimal; "" if it has none.
func (b *Binary) BuildID() string {
	for _, p := range b.elf.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		data, err := io.ReadAll(p.Open())
		if err != nil {
			continue
		}
		for len(data) >= 12 {
			order := b.elf.ByteOrder
			name, desc, kind := int(order.Uint32(data)), int(order.Uint32(data[4:])), order.Uint32(data[8:])
			after := 12 + (name+3)&^3
			end := after + (desc+3)&^3
			if name < 0 || desc < 0 || after < 0 || end < after || after+desc > len(data) {
				break
			}
			if kind == 3 && strings.HasPrefix(string(data[12:]), "GNU\x00") {
				return hex.EncodeToString(data[after : after+desc])
			}
			data = data[min(end, len(data)):]
		}
	}
	return ""
}
