package spx

import (
	"bytes"
	"io"
)

// Sniff reports whether a file that begins with head is either file of a report.
func Sniff(head []byte) bool {
	const events = eventsHeading + "\n"
	if b := bytes.TrimLeft(head, " \t\r\n"); len(b) > 0 && b[0] == '{' {
		return bytes.Contains(head, []byte(`"enabled_metrics"`)) || bytes.Contains(head, []byte(`"spx-full-`))
	}
	text, free, err := unpack(bytes.NewReader(head))
	if err != nil {
		return false
	}
	defer free()
	first := make([]byte, len(events))
	n, _ := io.ReadFull(text, first)
	return string(first[:n]) == events
}
