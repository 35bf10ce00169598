package formats

import (
	"os"

	"github.com/gotach/profiler/internal/formats/jsonl"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/writer"
)

var jsonLines = &Format{
	Name:       "jsonl",
	Doc:        "JSON lines, a sample each, as gotach dump prints them",
	Extensions: []string{".jsonl", ".ndjson"},
	Series:     true,
	sniff:      jsonl.Sniff,
	open: func(s *Source, o *Options) (Content, error) {
		return spool(o, func(create func(start, interval uint64) (*writer.Writer, error)) error {
			f, err := s.Open()
			if err != nil {
				return err
			}
			defer f.Close()
			return jsonl.Read(f, create)
		})
	},
	write: func(t *Target, in *Input, o *Options) error {
		r, err := in.Series()
		if err != nil {
			return err
		}
		return jsonl.Write(t.W, r.Frames(), o.samples(r))
	},
}

// spooled is a series of another format, rewritten as a temporary Tachyon file.
type spooled struct {
	tachyonContent
	path string
}

// spool makes a Content of samples that read hands to the writer it creates.
func spool(o *Options, read func(create func(start, interval uint64) (*writer.Writer, error)) error) (Content, error) {
	f, err := os.CreateTemp("", "gotach-*.tach")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := &spooled{path: f.Name()}
	var w *writer.Writer
	err = read(func(start, interval uint64) (_ *writer.Writer, err error) {
		w, err = writer.New(f, writer.Options{Start: start, Interval: interval, Uncompressed: true})
		return w, err
	})
	if w != nil {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}
	if err == nil {
		var r *reader.Reader
		if r, err = reader.Open(f.Name()); err == nil {
			c.tachyonContent = tachyonContent{r, o}
			return c, nil
		}
	}
	os.Remove(c.path)
	return nil, err
}

func (c *spooled) Close() error {
	err := c.Reader.Close()
	if rerr := os.Remove(c.path); err == nil {
		err = rerr
	}
	return err
}

func (c *spooled) Info() ([]Field, error) {
	p, err := c.Profile()
	if err != nil {
		return nil, err
	}
	return profileInfo(jsonLines, p), nil
}

func (c *spooled) Verify() (string, error) {
	p, err := c.Profile()
	if err != nil {
		return "", err
	}
	return verified(p), nil
}
