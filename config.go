package profiler

import (
	"log/slog"
	"time"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/sampler"
)

// config is what options and environment come to.
type config struct {
	output       string
	rate         int
	budget       float64
	source       SourceKind
	compression  Codec
	sync         time.Duration // 0: never
	rotate       rotation
	keep         kept
	exports      []hook.Target
	oneFile      string // see hook.OneFile
	maxPause     time.Duration
	system       bool
	noWaitFrames bool
	logger       *slog.Logger

	fileSamples uint64 // in a file; 0: as many as its header can count. For tests.
}

// newConfig starts from the defaults and applies options, then the environment as
// get gives it. Warnings about the environment are logged; the caller reports the
// error of an option.
func newConfig(opts []Option, get func(string) string) (config, error) {
	c := config{
		output:      "%e-%p.tach",
		rate:        sampler.DefaultRate,
		budget:      sampler.DefaultBudget,
		source:      Auto,
		compression: Zstd,
		keep:        kept{keepFiles, keepBytes},
		maxPause:    sampler.DefaultMaxPause,
	}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o(&c); err != nil {
			return config{}, err
		}
	}
	warnings := c.environ(get)
	if c.oneFile != "" {
		c.output, c.rotate, c.exports = c.oneFile, rotation{}, nil
	}
	for _, w := range warnings {
		c.log().Warn("gotach: " + w)
	}
	return c, nil
}

func (c *config) log() *slog.Logger {
	if c.logger != nil {
		return c.logger
	}
	return slog.Default()
}
