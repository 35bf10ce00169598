package formats

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/gotach/profiler/internal/formats/collapsed"
	"github.com/gotach/profiler/internal/formats/pprof"
	"github.com/gotach/profiler/internal/formats/spx"
	"github.com/gotach/profiler/internal/profile"
)

var pprofFormat = &Format{
	Name:       "pprof",
	Doc:        "go tool pprof's profile, of wall or CPU time",
	Extensions: []string{".pb.gz", ".pprof", ".prof", ".pb"},
	sniff:      func(head []byte) bool { return pprof.Sniff(head) && !spx.Sniff(head) },
	open: func(s *Source, _ *Options) (Content, error) {
		return readSums(s, pprof.Read)
	},
	write: func(t *Target, in *Input, _ *Options) error {
		p, err := in.Profile()
		if err != nil {
			return err
		}
		return pprof.Write(t.W, p)
	},
}

var folded = &Format{
	Name:       "collapsed",
	Doc:        "folded stacks for flame graphs, weights in µs",
	Extensions: []string{".folded", ".collapsed", ".txt"},
	sniff:      collapsed.Sniff,
	open: func(s *Source, _ *Options) (Content, error) {
		return readSums(s, collapsed.Read)
	},
	write: func(t *Target, in *Input, o *Options) error {
		p, err := in.Profile()
		if err != nil {
			return err
		}
		return collapsed.Write(t.W, p, collapsed.Options{Goroutines: o.Goroutines, CPU: o.CPU})
	},
}

// sums is a profile that was read whole.
type sums struct{ p *profile.Profile }

func (s sums) Profile() (*profile.Profile, error) { return s.p, nil }
func (sums) Close() error                         { return nil }

// readSums opens a format by reading it.
func readSums(s *Source, read func(io.Reader) (*profile.Profile, error)) (Content, error) {
	f, err := s.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := read(f)
	if err != nil {
		if e := (*os.PathError)(nil); errors.As(err, &e) {
			return nil, e.Err
		}
		return nil, err
	}
	return sums{p}, nil
}

// dumpRecords writes a profile's records as JSON lines.
func dumpRecords(w io.Writer, p *profile.Profile) error {
	return buffered(w, func(b *bufio.Writer) error {
		type record struct {
			Goroutine uint64            `json:"goroutine,omitempty"`
			State     string            `json:"state,omitempty"`
			Labels    map[string]string `json:"labels,omitempty"`
			Count     int64             `json:"count"`
			Wall      time.Duration     `json:"wall_ns"`
			CPU       time.Duration     `json:"cpu_ns"`
			Frames    [][3]any          `json:"frames"`
		}
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
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
