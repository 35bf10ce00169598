package formats

import (
	"io"

	"github.com/gotach/profiler/internal/formats/jsonl"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
)

var jsonLines = &Format{
	Name:       "jsonl",
	Doc:        "JSON lines: each sample and all metadata, as gotach dump prints them",
	Extensions: []string{".jsonl", ".ndjson"},
	Series:     true,
	sniff:      jsonl.Sniff,
	open: func(s *source, _ *Options) (content, error) {
		var in inMemory
		err := s.read(func(r io.Reader) (err error) {
			in.Reader, err = jsonl.Read(r)
			return err
		})
		return in, err
	},
	write: writeSeries(func(t *target, src *stream.Source, _ *Options) error {
		return jsonl.Write(t.W, src)
	}),
}

// inMemory is a series that is in memory.
type inMemory struct{ *reader.Reader }

// Series returns it.
func (m inMemory) Series() (*reader.Reader, error) { return m.Reader, nil }

// Close does nothing: there is no file.
func (inMemory) Close() error { return nil }
