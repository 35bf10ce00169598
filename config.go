package profiler

import (
	"log/slog"
	"time"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/sampler"
)

// A config is the result of the options and the environment.
type config struct {
	output      string
	rate        int
	budget      float64
	source      SourceKind
	compression Codec
	sync        time.Duration // 0: never
	rotate      rotation
	keep        kept
	exports     []hook.Target
	oneFile     string // see hook.OneFile
	noFile      bool   // see hook.NoFile
	maxPause    time.Duration
	system      bool
	leaks       bool
	service     string

	serviceVersion string

	noWaitFrames bool
	logger       *slog.Logger

	fileSamples uint64 // most samples in a file, for tests; 0: as many as its header can count
}

// newConfig starts with the defaults, then applies the options and the environment, which
// it reads with get. It logs warnings about the environment and returns the error of an
// invalid option.
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
	if c.oneFile != "" || c.noFile {
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
