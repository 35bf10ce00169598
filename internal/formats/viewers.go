package formats

import (
	"errors"
	"strings"

	"github.com/gotach/profiler/internal/formats/firefox"
	"github.com/gotach/profiler/internal/formats/flamegraph"
	"github.com/gotach/profiler/internal/formats/speedscope"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/klauspost/compress/gzip"
)

var firefoxProfile = &Format{
	Name:       "firefox",
	Doc:        "for profiler.firefox.com and ui.perfetto.dev: tracks in time",
	Extensions: []string{".firefox.json.gz", ".firefox.json"},
	Runs:       true,
	sniff:      firefox.Sniff,
	write: func(t *target, in *Input, o *Options) error {
		plain := o.Uncompressed || strings.HasSuffix(strings.ToLower(t.Name), ".json")
		return writeRuns(in, o, stream.Options{Labels: true, Objects: true, Creators: true}, func(src *stream.Source) ([]string, error) {
			if plain {
				return firefox.Write(t.W, src)
			}
			z := gzip.NewWriter(t.W)
			left, err := firefox.Write(z, src)
			return left, errors.Join(err, z.Close())
		})
	},
}

var speedscopeProfile = &Format{
	Name:       "speedscope",
	Doc:        "for www.speedscope.app: a profile for each goroutine or group",
	Extensions: []string{".speedscope.json"},
	Runs:       true,
	sniff:      speedscope.Sniff,
	write: func(t *target, in *Input, o *Options) error {
		return writeRuns(in, o, stream.Options{Creators: true}, func(src *stream.Source) ([]string, error) {
			return speedscope.Write(t.W, src)
		})
	},
}

// writeRuns writes a format that is made of package runs, which reads all samples twice.
func writeRuns(in *Input, o *Options, so stream.Options, write func(*stream.Source) ([]string, error)) error {
	if progress := in.options.Progress; progress != nil {
		before, second := uint64(0), false
		so.Progress = func(done, total uint64) {
			second = second || done < before
			before = done
			if second {
				done += total
			}
			progress(done, 2*total)
		}
	}
	src, err := in.Source(so)
	if err != nil {
		return err
	}
	left, err := write(src)
	if err == nil && len(left) > 0 {
		o.warn(errors.New(strings.Join(left, "; ")))
	}
	return err
}

var flameGraph = &Format{
	Name:       "flamegraph",
	Doc:        "flame graph as a picture for documents (SVG)",
	Extensions: []string{".svg"},
	sniff:      flamegraph.Sniff,
	write: func(t *target, in *Input, o *Options) error {
		p, err := in.sums(profile.Detail{})
		if err != nil {
			return err
		}
		g := flamegraph.Options{CPU: o.CPU}
		if sel := in.selection(); sel != nil {
			g.Selection = sel.String()
		}
		left, err := flamegraph.Write(t.W, p, g)
		if err == nil && left != "" {
			o.warn(errors.New(left))
		}
		return err
	},
}
