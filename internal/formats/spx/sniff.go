package spx

import (
	"bytes"
	"compress/gzip"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Sniff reports whether a file that begins with head is either file of a report.
func Sniff(head []byte) bool {
	const events = "[events]\n"
	if b := bytes.TrimLeft(head, " \t\r\n"); len(b) > 0 && b[0] == '{' {
		return bytes.Contains(head, []byte(`"enabled_metrics"`)) || bytes.Contains(head, []byte(`"spx-full-`))
	}
	var text io.Reader = bytes.NewReader(head)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(text)
		if err != nil {
			return false
		}
		text = z
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(text, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return false
		}
		defer z.Close()
		text = z
	}
	first := make([]byte, len(events))
	n, _ := io.ReadFull(text, first)
	return string(first[:n]) == events
}
