package httpprof

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/instant"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/stream"
)

// beforeInstant is the time before a moment whose samples are read too: goroutines that wait for
// long have few.
const beforeInstant = 10 * time.Second

// before returns how much more of the past is read than is asked for.
func (q query) before() time.Duration {
	if q.at > 0 {
		return beforeInstant
	}
	return 0
}

// stacks writes what every goroutine did at a moment to result. path is the profile.
func stacks(ctx context.Context, path, result string, at time.Time) error {
	in, err := formats.Open(path, formats.Options{Context: ctx})
	if err != nil {
		return err
	}
	defer in.Close()
	src, err := in.Source(stream.Options{Labels: true, Creators: true})
	if err != nil {
		return err
	}
	moment, err := stream.ParseMoment(at.UTC().Format(time.RFC3339Nano))
	if err != nil {
		return err
	}
	x, err := instant.Find(analyze.NewSamples(in.Name, src), instant.Options{At: moment})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(result, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(instant.Text(x.Goroutines))
	return errors.Join(err, f.Close())
}
