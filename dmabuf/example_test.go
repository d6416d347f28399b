package dmabuf_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"syscall"

	"github.com/peerdirect/peerdirect/dmabuf"
)

// A registration is judged by the kernel's rules before it is tried, and without a
// device: here an offset that is in the middle of a page of the address that it is to
// be registered under.
func ExampleCheck() {
	report := dmabuf.Check(dmabuf.CheckOptions{
		Offset: 0x800, Length: 1 << 20, IOVA: 0x7f0000000000, BufferSize: 64 << 20, Exporter: "nv_dmabuf",
		Driver: "mlx5", Kernel: "7.3.4", Access: 1, // IBV_ACCESS_LOCAL_WRITE
	})
	err := report.Err()
	fmt.Println(errors.Is(err, syscall.EINVAL))
	if rule := report.Failing(); rule != nil {
		fmt.Println(rule.Name, "-", rule.Where)
	}
	// Output:
	// true
	// page offset - UVERBS_METHOD_REG_DMABUF_MR
}

// Which exporters this machine has: each one says why it cannot be used, in one of
// three classes, and what to do.
func ExampleExporters() {
	usable, explained := 0, 0
	for _, e := range dmabuf.Exporters() {
		err := e.Available()
		switch {
		case err == nil:
			usable++
		case errors.Is(err, dmabuf.ErrNoDevice), errors.Is(err, dmabuf.ErrUnsupported), errors.Is(err, dmabuf.ErrPermission), errors.Is(err, syscall.EBUSY):
			explained++
			fmt.Fprintln(os.Stderr, err)
		}
	}
	fmt.Println(usable+explained == len(dmabuf.Exporters()))
	// Output: true
}

// Memory of an exporter, its dma-buf, and the order of closing. A NIC registers the
// descriptor with verbs.PD.RegisterDMABuf, or efa's.
func ExampleOpen() {
	text, err := exported("udmabuf")
	if errors.Is(err, dmabuf.ErrNoDevice) || errors.Is(err, dmabuf.ErrUnsupported) || errors.Is(err, dmabuf.ErrPermission) {
		fmt.Fprintln(os.Stderr, err) // for example without the module udmabuf
		text = "through the accelerator's memory"
	} else if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
	// Output: through the accelerator's memory
}

func exported(name string) (_ string, err error) {
	exporter, err := dmabuf.Open(name)
	if err != nil {
		return "", err
	}
	if err := exporter.Available(); err != nil {
		return "", err
	}
	memory, err := exporter.Allocate(1 << 20)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	buffer, err := memory.Export(4096, 8192) // which may begin before: register at buffer.Offset
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, buffer.Close()) }()
	release, err := buffer.Hold() // while a registration stands
	if err != nil {
		return "", err
	}
	defer release() // before the buffer is closed
	if _, err := memory.WriteAt([]byte("through the accelerator's memory"), 4096); err != nil {
		return "", err
	}
	text := make([]byte, 32)
	_, err = memory.ReadAt(text, 4096)
	return string(text), err
}
