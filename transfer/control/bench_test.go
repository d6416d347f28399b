package control

import (
	"fmt"
	"testing"
)

// One message there and one back: latency.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{16, 1024} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			d, a := pair(b, Options{}, Options{})
			go echo(b, a, 1)
			p := make([]byte, size)
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Send(TypeUser, p); err != nil {
					b.Fatal(err)
				}
				if _, _, err := d.Receive(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Messages in windows of 256, each of which is acknowledged as a whole: rate. A
// step is a message.
func BenchmarkStream(b *testing.B) {
	const window = 256
	for _, size := range []int{16, 1024} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			d, a := pair(b, Options{}, Options{})
			go echo(b, a, window)
			p := make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for sent := 0; b.Loop(); {
				if err := d.Send(TypeUser, p); err != nil {
					b.Fatal(err)
				}
				if sent++; sent%window == 0 {
					if _, _, err := d.Receive(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// echo answers every n-th message until the conversation ends.
func echo(b *testing.B, c *Conn, n int) {
	for i := 1; ; i++ {
		t, p, err := c.Receive(b.Context())
		if err != nil {
			return
		}
		if i%n == 0 && c.Send(t, p) != nil {
			return
		}
	}
}
