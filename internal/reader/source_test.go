package reader

import (
	"strings"
	"testing"
)

// A stream without an end is an error before it takes all memory.
func TestEndlessStream(t *testing.T) {
	defer func(was int64) { maxStream = was }(maxStream)
	maxStream = 1 << 10
	endless := strings.NewReader(strings.Repeat("x", 1<<20))
	if _, err := New(endless); err == nil || !strings.Contains(err.Error(), "more than 1024 bytes: write it to a file first") {
		t.Error(err)
	}
	if endless.Len() == 0 {
		t.Error("all of the stream was read")
	}
}
