package pictures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the pictures instead of comparing")

// TestPictures: the files are what the package draws, and XML.
func TestPictures(t *testing.T) {
	for name, want := range Pictures() {
		d := xml.NewDecoder(bytes.NewReader([]byte(want)))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		file := filepath.Join("../../../docs/pictures", name)
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != want {
			t.Errorf("%s is not what is drawn now (%v): go test ./internal/docs/pictures -update", file, err)
		}
	}
}
