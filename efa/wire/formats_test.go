package wire

import (
	"fmt"
	"math"
	"reflect"
	"slices"
)

// A codec is what every type of the package is.
type codec interface {
	Encode([]byte)
	Decode([]byte)
}

// A format is one type with its size.
type format struct {
	size int
	make func() codec
}

func (f format) name() string { return reflect.TypeOf(f.make()).Elem().Name() }

func of[T any, P interface {
	*T
	codec
}](size int) format {
	return format{size, func() codec { return P(new(T)) }}
}

// formats are all types of the package, and after them the forms of the data path,
// through the adapters of hot_test.go.
var formats = []format{
	of[MMIOResp](SizeMMIOResp),
	of[AQDesc](SizeAQDesc),
	of[AQDescV2](SizeAQDescV2),
	of[ACQDesc](SizeACQDesc),
	of[CtrlBuffer](SizeCtrlBuffer),
	of[AENQDesc](SizeAENQDesc),
	of[AENQEntry](SizeAENQEntry),
	of[CreateQP](SizeCreateQP),
	of[CreateQPResp](SizeCreateQPResp),
	of[ModifyQP](SizeModifyQP),
	of[QueryQP](SizeQueryQP),
	of[QueryQPResp](SizeQueryQPResp),
	of[DestroyQP](SizeDestroyQP),
	of[RegMR](SizeRegMR),
	of[RegMRResp](SizeRegMRResp),
	of[DeregMR](SizeDeregMR),
	of[AllocMR](SizeAllocMR),
	of[AllocMRResp](SizeAllocMRResp),
	of[CreateCQ](SizeCreateCQ),
	of[CreateCQResp](SizeCreateCQResp),
	of[DestroyCQ](SizeDestroyCQ),
	of[CreateAH](SizeCreateAH),
	of[CreateAHResp](SizeCreateAHResp),
	of[DestroyAH](SizeDestroyAH),
	of[AllocPDResp](SizeAllocPDResp),
	of[DeallocPD](SizeDeallocPD),
	of[AllocUARResp](SizeAllocUARResp),
	of[DeallocUAR](SizeDeallocUAR),
	of[CreateEQ](SizeCreateEQ),
	of[CreateEQResp](SizeCreateEQResp),
	of[DestroyEQ](SizeDestroyEQ),
	of[EQE](SizeEQE),
	of[CreateEventCounter](SizeCreateEventCounter),
	of[CreateEventCounterResp](SizeCreateEventCounterResp),
	of[DestroyEventCounter](SizeDestroyEventCounter),
	of[AttachEventCounter](SizeAttachEventCounter),
	of[ModifyEventCounter](SizeModifyEventCounter),
	of[GetStats](SizeGetStats),
	of[BasicStats](SizeBasicStats),
	of[MessagesStats](SizeMessagesStats),
	of[RDMAReadStats](SizeRDMAReadStats),
	of[RDMAWriteStats](SizeRDMAWriteStats),
	of[NetworkStats](SizeNetworkStats),
	of[Service](SizeService),
	of[ServiceResp](SizeServiceResp),
	of[GetFeature](SizeGetFeature),
	of[SetFeature](SizeSetFeature),
	of[DeviceAttr](SizeDeviceAttr),
	of[QueueAttr1](SizeQueueAttr1),
	of[QueueAttr2](SizeQueueAttr2),
	of[EventQueueAttr](SizeEventQueueAttr),
	of[AENQConfig](SizeAENQConfig),
	of[NetworkAttr](SizeNetworkAttr),
	of[HWHints](SizeHWHints),
	of[HostInfo](SizeHostInfo),
	of[TxMeta](SizeTxMeta),
	of[TxBuf](SizeTxBuf),
	of[RemoteBuf](SizeRemoteBuf),
	of[RDMAReq](SizeRDMAReq),
	of[FastRegMR](SizeFastRegMR),
	of[FastInvMR](SizeFastInvMR),
	of[RxDesc](SizeRxDesc),
	of[CQECommon](SizeCQECommon),
	of[TxCQE](SizeTxCQE),
	of[RxCQE](SizeRxCQE),
	of[RxCQEEx](SizeRxCQEEx),

	of[hotSend](64),
	of[hotInline](64),
	of[hotRDMA](64),
	of[hotWideInline](128),
	of[hotWideRDMAInline](128),
	of[hotRx](16),
	of[hotTxCQE](16),
	of[hotRxCQE](16),
	of[hotLengthHi](32),
	of[hotSrcAddr](32),
	of[hotCQDoorbell](4),
}

// narrow are the fields that have fewer bits on the wire than in Go, with the bits
// they keep.
var narrow = map[string]uint64{
	"AQDesc.CommandID":    0xfff,
	"AQDescV2.CommandID":  0xfff,
	"ACQDesc.CommandID":   0xfff,
	"RegMR.PageShift":     0x3f,
	"CreateCQ.EntryWords": 0x1f,
	"CreateCQ.Flags":      0xe0,
	"CreateEQ.EntryWords": 0x1f,
	"HostInfo.Function":   0x7,
	"HostInfo.Device":     0x1f,
	"TxMeta.Hints":        0x3,
	"TxBuf.LKey":          0xffffff,
	"RDMAReq.Local.LKey":  0xffffff,
	"FastRegMR.PageShift": 0x1f,
	"FastRegMR.PBLMode":   0x3,
	"RxDesc.LKey":         0xffffff,
	"TxCQE.ReqIDHigh":     0xffffffffffff0000,

	"hotSend.Hints":           0x3,
	"hotInline.Hints":         0x3,
	"hotRDMA.Hints":           0x3,
	"hotWideInline.Hints":     0x3,
	"hotWideRDMAInline.Hints": 0x3,
	"hotSend.Buf0.LKey":       0xffffff,
	"hotSend.Buf1.LKey":       0xffffff,
	"hotRDMA.Local.LKey":      0xffffff,
	"hotRx.LKey":              0xffffff,
	"hotTxCQE.Queue":          0x3,
	"hotTxCQE.Op":             0x7,
	"hotRxCQE.Queue":          0x3,
	"hotRxCQE.Op":             0x7,
	"hotCQDoorbell.Sequence":  0x3,
}

// A leaf is a field that is no struct; an array is one leaf.
type leaf struct {
	path  string
	value reflect.Value
}

// leaves gives the leaves of what c points to. A field of an embedded struct has
// no prefix.
func leaves(c codec) []leaf { return collect(nil, "", reflect.ValueOf(c).Elem()) }

func collect(out []leaf, path string, v reflect.Value) []leaf {
	if v.Kind() != reflect.Struct {
		return append(out, leaf{path, v})
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		p := path
		if !f.Anonymous {
			if p != "" {
				p += "."
			}
			p += f.Name
		}
		out = collect(out, p, v.Field(i))
	}
	return out
}

// set makes a leaf x, or every element of an array x or what follows it.
func set(v reflect.Value, x uint64) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(x&1 != 0)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(x & (math.MaxUint64 >> (64 - 8*v.Type().Size())))
	case reflect.Array:
		for i := range v.Len() {
			if x == math.MaxUint64 {
				set(v.Index(i), x)
			} else {
				set(v.Index(i), x+uint64(i)*0x0101010101010101)
			}
		}
	default:
		panic(fmt.Sprintf("a field of kind %v has no place on the wire", v.Kind()))
	}
}

// ones gives the bits, as bytes, that a leaf of a format has in its encoding: what
// changes when the leaf alone goes from zero to all ones.
func ones(f format, path string) []byte {
	c := f.make()
	zero, one := make([]byte, f.size), make([]byte, f.size)
	c.Encode(zero)
	all := leaves(c)
	i := slices.IndexFunc(all, func(l leaf) bool { return l.path == path })
	if i < 0 {
		panic(f.name() + " has no field " + path)
	}
	set(all[i].value, math.MaxUint64)
	c.Encode(one)
	for i := range one {
		one[i] ^= zero[i]
	}
	return one
}
