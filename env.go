package profiler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/sampler"
)

// environ adds to c what the environment says and code does not; PROFILE_OUT
// alone takes precedence over code. get is os.Getenv. It returns a warning for
// each value that makes no sense, and leaves that setting as if it were unset.
func (c *config) environ(get func(string) string) (warnings []string) {
	if v := get("PROFILE_OUT"); v != "" {
		c.output = v
	}
	// option applies an option unless code has set that field.
	option := func(name string, inCode bool, fallback string, parse func(string) (Option, error)) {
		v := get(name)
		if v == "" || inCode {
			return
		}
		o, err := parse(v)
		if err == nil {
			err = o(c)
		}
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s=%q: %v; using %s", name, v, err, fallback))
		}
	}
	option("PROFILE_RATE", c.rate != 0, fmt.Sprint(sampler.DefaultRate), func(v string) (Option, error) {
		n, err := strconv.Atoi(v)
		if err != nil {
			return nil, fmt.Errorf("not a whole number of ticks a second")
		}
		return Rate(n), nil
	})
	option("PROFILE_BUDGET", c.budget != 0, fmt.Sprintf("%v %%", sampler.DefaultBudget), func(v string) (Option, error) {
		p, err := strconv.ParseFloat(strings.TrimSuffix(v, "%"), 64)
		if err != nil {
			return nil, fmt.Errorf("not a number of percent")
		}
		return Budget(p), nil
	})
	option("PROFILE_SOURCE", c.source != "", sources[0], func(v string) (Option, error) { return Source(v), nil })
	option("PROFILE_COMPRESSION", c.compression != "", compressions[0], func(v string) (Option, error) { return Compression(v), nil })

	option("PROFILE_SYNC", c.sync != 0, "none", func(v string) (Option, error) {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, fmt.Errorf("not a duration such as 1s")
		}
		return Sync(d), nil
	})

	option("PROFILE_ROTATE", c.rotate != rotation{}, "one file", func(v string) (Option, error) {
		r, err := parseRotation(v)
		return Rotate(r.every, r.bytes), err
	})
	option("PROFILE_KEEP", c.keep != kept{}, fmt.Sprintf("%d,%s", keepFiles, formatBytes(keepBytes)), func(v string) (Option, error) {
		k, err := parseKept(v)
		return Keep(k.files, k.bytes), err
	})

	if c.oneFile != "" {
		c.output, c.rotate, c.exports = c.oneFile, rotation{}, nil
		return warnings
	}
	// Exports add up; for a format that both name, code wins.
	inCode := slices.Clone(c.exports)
	for item := range strings.SplitSeq(get("PROFILE_EXPORT"), ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		format, path, _ := strings.Cut(item, "=")
		if err := checkExport(format, path); err != nil {
			warnings = append(warnings, fmt.Sprintf("PROFILE_EXPORT: %q: %v; not exporting that", item, err))
			continue
		}
		if !slices.ContainsFunc(inCode, func(t hook.Target) bool { return t.Format == format }) {
			c.exports = append(c.exports, hook.Target{Format: format, Path: path})
		}
	}
	return warnings
}

// defaults fills in what neither code nor environment has set.
func (c *config) defaults() {
	if c.rate == 0 {
		c.rate = sampler.DefaultRate
	}
	if c.budget == 0 {
		c.budget = sampler.DefaultBudget
	}
	if c.source == "" {
		c.source = sources[0]
	}
	if c.compression == "" {
		c.compression = compressions[0]
	}
	if c.keep.files == 0 {
		c.keep.files = keepFiles
	}
	if c.keep.bytes == 0 {
		c.keep.bytes = keepBytes
	}
	if c.output == "" {
		c.output = "%e-%p.tach"
	}
}
