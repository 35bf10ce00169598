package formats

import (
	"fmt"
	"io"

	"github.com/gotach/profiler/internal/formats/tach"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

var tachFormat = &Format{
	Name:       "tach",
	Doc:        "Tachyon file as gotach records it, version 2 on disk",
	Extensions: []string{".tach"},
	Series:     true,
	sniff:      tach.Sniff,
	open:       openTachyon,
	write:      writeTachyon(tachyon.Document),
}

var cpython315 = &Format{
	Name:       "cpython315",
	Doc:        "Tachyon file as CPython 3.15 writes and reads it",
	Extensions: []string{".bin"},
	Series:     true,
	sniff:      tach.SniffCPython,
	open:       openTachyon,
	write:      writeTachyon(tachyon.CPython315),
}

func writeTachyon(layout tachyon.Layout) func(*target, *Input, *Options) error {
	return writeSeries(func(t *target, src *stream.Source, o *Options) error {
		return t.seekable(func(f io.WriteSeeker) error {
			return tach.Write(f, src, tach.Options{Layout: layout, Uncompressed: o.Uncompressed, Exact: o.Exact, Warn: o.Warn})
		})
	})
}

// tachyonContent is an open Tachyon file.
type tachyonContent struct {
	*reader.Reader
	o *Options
}

func openTachyon(s *source, o *Options) (_ content, err error) {
	c := &tachyonContent{o: o}
	if s.Path != "" {
		c.Reader, err = reader.Open(s.Path)
	} else {
		c.Reader, err = tach.Read(s.stream, s.Name)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Series returns the samples of the file.
func (c *tachyonContent) Series() (*reader.Reader, error) { return c.Reader, nil }

// Verify checks all samples and the checksum.
func (c *tachyonContent) Verify() (string, error) {
	found, err := verifyFiles([]stream.File{{Stream: c.Reader}}, c.o)
	if err != nil {
		return "", err
	}
	sum := "no checksum"
	present, err := c.VerifyChecksum()
	if err != nil {
		return "", err
	}
	if present {
		sum = "checksum right"
	}
	return fmt.Sprintf("%s layout, %d bytes, %s, %s", c.Header().Layout, c.Size(), found, sum), nil
}

// verifyFiles reads all samples and describes them in a line.
func verifyFiles(files []stream.File, o *Options) (string, error) {
	src, err := stream.New(files, stream.Options{Markers: true, Objects: true, Context: o.Context, Progress: o.Progress})
	if err != nil {
		return "", err
	}
	samples, deepest := 0, uint32(0)
	threads := map[reader.Thread]bool{}
	recorded := src.Metadata().Session != nil
	for s, err := range src.Samples() {
		if err != nil {
			return "", err
		}
		if s.Time > tachyon.MaxTime {
			return "", fmt.Errorf("sample %d, of goroutine %d: its time of %d µs is beyond the limit of %d", samples, s.Goroutine, s.Time, uint64(tachyon.MaxTime))
		}
		samples++
		if s.First && !(recorded && s.Interpreter == tachyon.Process) {
			threads[reader.Thread{ID: s.Goroutine, Interpreter: s.Interpreter}] = true
		}
		deepest = max(deepest, src.Stacks()[s.Stack].Depth)
	}
	return fmt.Sprintf("%d samples of %d goroutines, %d frames, deepest stack %d", samples, len(threads), len(src.Frames()), deepest), nil
}
