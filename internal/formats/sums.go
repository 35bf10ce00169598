package formats

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gotach/profiler/internal/formats/collapsed"
	"github.com/gotach/profiler/internal/formats/otlp"
	"github.com/gotach/profiler/internal/formats/pprof"
	"github.com/gotach/profiler/internal/formats/spx"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

var pprofFormat = &Format{
	Name:       "pprof",
	Doc:        "go tool pprof's profile, of wall or CPU time",
	Extensions: []string{".pb.gz", ".pprof", ".prof", ".pb", ".pgo"},
	sniff:      func(head []byte) bool { return pprof.Sniff(head) && !spx.Sniff(head) },
	open:       openSums(pprof.Read),
	write:      writePprof,
}

// manyGoroutines is the number of goroutines from which on a pprof profile does not tell them apart
// unless asked to. Tools that read pprof profiles cannot show more, and hardly open the file.
const manyGoroutines = 1_000_000

func writePprof(t *target, in *Input, o *Options) error {
	if o.CPU {
		return writeCPU(t, in, o)
	}
	if _, ok := in.content.(sum); ok {
		p, err := in.Profile()
		if err != nil {
			return err
		}
		return pprof.Write(t.W, p)
	}
	files, err := in.files()
	if err != nil {
		return err
	}
	threads := uint64(0)
	for _, f := range files {
		threads += uint64(f.Stream.Header().Threads)
	}
	goroutines := o.Goroutines || threads <= manyGoroutines
	if !goroutines {
		o.warn(fmt.Errorf("more than %d goroutines: they are added up, without the label goroutine; --goroutines keeps them apart", manyGoroutines))
	}
	src, err := in.Source(stream.Options{Labels: true})
	if err != nil {
		return err
	}
	return pprof.WriteStream(t.W, src, goroutines)
}

var otlpFormat = &Format{
	Name:       "otlp",
	Doc:        "OpenTelemetry's ProfilesData (v1development): wall and CPU time",
	Extensions: []string{".otlp"},
	write: func(t *target, in *Input, o *Options) error {
		if _, ok := in.content.(sum); ok {
			p, err := in.Profile()
			if err != nil {
				return err
			}
			return otlp.Write(t.W, p)
		}
		src, err := in.Source(stream.Options{Labels: true})
		if err != nil {
			return err
		}
		return otlp.WriteStream(t.W, src, o.Goroutines)
	},
}

var folded = &Format{
	Name:       "collapsed",
	Doc:        "folded stacks for flame graphs, weights in µs",
	Extensions: []string{".folded", ".collapsed", ".txt"},
	sniff:      collapsed.Sniff,
	open:       openSums(collapsed.Read),
	write: func(t *target, in *Input, o *Options) error {
		p, err := in.sums(profile.Detail{Goroutines: o.Goroutines})
		if err != nil {
			return err
		}
		return collapsed.Write(t.W, p, collapsed.Options{Goroutines: o.Goroutines, CPU: o.CPU})
	},
}

// sums is a profile in memory.
type sums struct{ p *profile.Profile }

func (s sums) Profile() (*profile.Profile, error) { return s.p, nil }
func (sums) Close() error                         { return nil }

// openSums opens a format by reading it.
func openSums(read func(io.Reader) (*profile.Profile, error)) func(*source, *Options) (content, error) {
	return func(s *source, _ *Options) (content, error) {
		var in sums
		err := s.read(func(r io.Reader) (err error) {
			in.p, err = read(r)
			return err
		})
		if e := (*os.PathError)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return in, err
	}
}

// writeSums writes a format that is made of a profile added up.
func writeSums(write func(io.Writer, *profile.Profile, *Options) error) func(*target, *Input, *Options) error {
	return func(t *target, in *Input, o *Options) error {
		p, err := in.Profile()
		if err != nil {
			return err
		}
		return write(t.W, p, o)
	}
}

// writeSeries writes a format that is made of all samples.
func writeSeries(write func(*target, *stream.Source, *Options) error) func(*target, *Input, *Options) error {
	return func(t *target, in *Input, o *Options) error {
		s, err := in.all()
		if err != nil {
			return err
		}
		return write(t, s, o)
	}
}

// dumpRecords writes a profile's records as JSON lines.
func dumpRecords(w io.Writer, p *profile.Profile) error {
	return encoded(w, func(e *json.Encoder) error {
		type record struct {
			Goroutine uint64            `json:"goroutine,omitempty"`
			State     string            `json:"state,omitempty"`
			Labels    map[string]string `json:"labels,omitempty"`
			Count     int64             `json:"count"`
			Wall      time.Duration     `json:"wall_ns"`
			CPU       time.Duration     `json:"cpu_ns"`
			Frames    [][3]any          `json:"frames"`
		}
		for i := range p.Records {
			r := &p.Records[i]
			out := record{r.Goroutine, r.State, r.Labels, r.Count, r.Wall, r.CPU, [][3]any{}}
			for _, id := range r.Stack {
				f := p.Frames[id]
				out.Frames = append(out.Frames, [3]any{f.File, f.Func, f.Line})
			}
			if err := e.Encode(out); err != nil {
				return err
			}
		}
		return nil
	})
}
