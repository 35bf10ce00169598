// Package page makes the page of a profile: one HTML file that shows a profile in a browser. It has
// a time strip, a flame graph, the goroutines and tables. They are linked: what is selected in one
// restricts the others.
//
// The numbers are those of packages profile and analyze. Build reads the samples and makes [Data]
// of them. The script of the page only adds up: Data has the time of each stack in each step of
// time, in whole microseconds, so sums over a part of the session are exact too.
//
// Data has pieces, each of which is compressed on its own. WriteHTML puts all pieces into the file.
// A [Server] sends the same page without them; then the script asks what there is, and fetches each
// piece by its name. A range of time that is too short for the page's steps becomes a page of its
// own: the server reads the profile again with that range only.
//
// The script and the style sheet are in the folder web, in files of one idea each. They need no
// build step: the files are joined in the order of their names. They use no library and nothing is
// fetched from other places.
package page

import (
	"errors"
	"fmt"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
)

// An Input is a profile to show.
type Input struct {
	Name string
	// Files are the files as they can be typed, for the commands that the page shows. "" means that
	// there are none.
	Files string
	// Open returns the samples, and is called once for each reading.
	Open func(stream.Options) (*stream.Source, error)
	// Live says that a program is writing it, so it is no fault that it has no end.
	Live bool
}

// Options say how to make a page. The zero value is the usual choice.
type Options struct {
	MaxSize int64 // of the HTML file in bytes; 0 is DefaultMaxSize
	// Source returns a source file of the profiled program, by its name in the profile, nil if
	// there is none. If Source is nil, the page has no lines of source files.
	Source func(name string) *source.File

	// Events bounds the memory that building a page takes, 32 bytes each, at the price of longer
	// steps of time. 0 is usual.
	Events int

	noFindings bool // leave out locks, requests and leaks
	noLatency  bool // leave out the weight latency, which takes three readings
}

// DefaultMaxSize is how large the HTML file may become.
const DefaultMaxSize = 15_000_000

// ErrTooLarge says that a page cannot be made as small as it was asked for.
var ErrTooLarge = errors.New("the page cannot be so small")

// Build reads a profile and makes the data of its page. With two profiles the page shows what is
// different. The second one comes after the first one on the axis of time.
func Build(inputs []Input, o Options) (*Data, error) {
	if len(inputs) < 1 || len(inputs) > 2 {
		return nil, fmt.Errorf("%d profiles; a page shows one, or two and their difference", len(inputs))
	}
	o.setDefaults()
	b := newBuilder(o)
	b.several = len(inputs) > 1
	for _, in := range inputs {
		if err := b.read(in); err != nil {
			return nil, err
		}
	}
	return b.finish(inputs)
}

func (o *Options) setDefaults() {
	if o.MaxSize == 0 {
		o.MaxSize = DefaultMaxSize
	}
	if o.Events == 0 {
		o.Events = maxEvents
	}
}

// samples returns the samples of an input for an analysis.
func (in *Input) samples(o stream.Options) (*analyze.Samples, error) {
	o.Unselected = true // as the commands read them
	src, err := in.Open(o)
	if err != nil {
		return nil, err
	}
	return analyze.NewSamples(in.Name, src), nil
}
