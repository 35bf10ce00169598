package profiler

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/internal/session"
)

// none is the value of a variable that turns off SyncEvery, rotation or Export.
const none = "none"

const sourceVariable = "PROFILE_SOURCE"

// newConfig starts with the defaults, then applies the options and the environment, which
// it reads with get. It logs warnings about the environment and returns the error of an
// invalid option. It logs no warning for Off, and returns no error if the environment says that.
func newConfig(opts []Option, get func(string) string) (config, error) {
	c := session.Defaults()
	if get(sourceVariable) == string(Off) {
		c.Source = string(Off)
		return c, nil
	}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o(&c); err != nil {
			return config{}, err
		}
	}
	warnings := environ(&c, get)
	if c.OneFile != "" || c.Sink != nil {
		c.Output, c.RotateEvery, c.RotateBytes, c.Exports = c.OneFile, 0, 0, nil
	}
	if c.Source == string(Off) {
		return c, nil
	}
	for _, w := range warnings {
		c.Logger().Warn("gotach: " + w)
	}
	return c, nil
}

// loggerOf returns the logger that the options set. Other options may be invalid.
func loggerOf(opts []Option) *slog.Logger {
	var c config
	for _, o := range opts {
		if o != nil {
			_ = o(&c) // newConfig has reported the error
		}
	}
	return c.Logger()
}

// environ applies the environment to c. get is os.Getenv, except in tests. A variable that
// is set overrides the option. environ returns a warning for each invalid value and does
// not change that setting.
func environ(c *config, get func(string) string) (warnings []string) {
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	// set parses a variable's value and applies it. If the value is invalid, the setting does
	// not change. The warning then includes that setting, which using returns as text.
	set := func(name string, using func() string, parse func(v string) (Option, error)) {
		v := get(name)
		if v == "" {
			return
		}
		o, err := parse(v)
		if err == nil {
			err = o(c)
		}
		if err != nil {
			warn("%s=%q: %v; using %s", name, v, err, using())
		}
	}
	set("PROFILE_OUT", func() string { return c.Output }, func(v string) (Option, error) { return Output(v), nil })
	set("PROFILE_RATE", func() string { return strconv.Itoa(c.Rate) }, parsed("not a whole number of ticks a second", func(v string) (Option, error) {
		n, err := strconv.Atoi(v)
		return Rate(n), err
	}))
	set(sourceVariable, func() string { return c.Source }, func(v string) (Option, error) { return Source(SourceKind(v)), nil })
	set("PROFILE_BUDGET", func() string { return fmt.Sprintf("%v %%", c.Budget) }, parsed("not a number of percent", func(v string) (Option, error) {
		p, err := strconv.ParseFloat(strings.TrimSuffix(v, "%"), 64)
		return Budget(p), err
	}))
	set("PROFILE_COMPRESSION", func() string { return c.Compression }, func(v string) (Option, error) { return Compression(Codec(v)), nil })
	set("PROFILE_SYNC", func() string { return describeSync(c.Sync) }, parsed("not a duration such as 1s", func(v string) (Option, error) {
		if v == none {
			return func(c *config) error { c.Sync = 0; return nil }, nil
		}
		d, err := time.ParseDuration(v)
		return SyncEvery(d), err
	}))
	set("PROFILE_ROTATE", func() string { return formatRotation(c.RotateEvery, c.RotateBytes) }, func(v string) (Option, error) {
		every, bytes, err := rotate.ParseSplit(v)
		return func(c *config) error { c.RotateEvery, c.RotateBytes = every, bytes; return nil }, err
	})
	set("PROFILE_KEEP", func() string { return strconv.Itoa(c.KeepFiles) + "," + rotate.FormatSize(c.KeepBytes) }, func(v string) (Option, error) {
		files, bytes, err := rotate.ParseKept(v)
		return func(c *config) error { c.KeepFiles, c.KeepBytes = files, bytes; return nil }, err
	})
	set("PROFILE_PAUSE", func() string { return c.MaxPause.String() }, parsed("not a duration such as 50ms", func(v string) (Option, error) {
		d, err := time.ParseDuration(v)
		return MaxPause(d), err
	}))
	for _, x := range []struct {
		name string
		flag *bool
	}{{"PROFILE_SYSTEM", &c.System}, {"PROFILE_LEAKS", &c.Leaks}} {
		set(x.name, func() string { return strconv.FormatBool(*x.flag) }, parsed("neither 1 nor 0", func(v string) (Option, error) {
			on, err := strconv.ParseBool(v)
			return func(*config) error { *x.flag = on; return nil }, err
		}))
	}

	openTelemetry(c, get)
	set("PROFILE_SERVICE", func() string { return strconv.Quote(c.Service) }, func(v string) (Option, error) {
		name, version := v, ""
		if at := strings.LastIndexByte(v, '@'); at >= 0 {
			name, version = v[:at], v[at+1:]
		}
		return Service(name, version), nil
	})

	if v := get("PROFILE_EXPORT"); v != "" && c.OneFile == "" && c.Sink == nil {
		c.Exports = nil
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item == "" || item == none {
				continue
			}
			format, path, _ := strings.Cut(item, "=")
			if err := checkExport(format, path); err != nil {
				warn("PROFILE_EXPORT: %q: %v; not exporting that", item, err)
				continue
			}
			c.Exports = append(c.Exports, hook.Target{Format: format, Path: path})
		}
	}
	return warnings
}

// parsed returns parse with another error, which says what a value is not.
func parsed(wrong string, parse func(v string) (Option, error)) func(string) (Option, error) {
	return func(v string) (Option, error) {
		o, err := parse(v)
		if err != nil {
			err = errors.New(wrong)
		}
		return o, err
	}
}

// openTelemetry takes the service from OpenTelemetry's variables if the program does not name one.
// What is invalid is left out without a warning: the variables are not for the profiler.
func openTelemetry(c *config, get func(string) string) {
	if c.Service != "" || c.ServiceVersion != "" {
		return
	}
	name, version := "", ""
	for pair := range strings.SplitSeq(get("OTEL_RESOURCE_ATTRIBUTES"), ",") {
		key, value, _ := strings.Cut(pair, "=")
		switch strings.TrimSpace(key) {
		case "service.name":
			name = unescape(strings.TrimSpace(value))
		case "service.version":
			version = unescape(strings.TrimSpace(value))
		}
	}
	if v := get("OTEL_SERVICE_NAME"); v != "" {
		name = v
	}
	_ = Service(name, version)(c) // it changes nothing if it returns an error
}

// unescape replaces %XX by the byte with that number.
func unescape(s string) string {
	var b []byte
	for ; s != ""; s = s[1:] {
		if s[0] == '%' && len(s) > 2 {
			if n, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
				b, s = append(b, byte(n)), s[2:]
				continue
			}
		}
		b = append(b, s[0])
	}
	return string(b)
}

func describeSync(every time.Duration) string {
	if every == 0 {
		return none
	}
	return every.String()
}

// formatRotation returns when a new file begins in the form of PROFILE_ROTATE, or "one file".
func formatRotation(every time.Duration, bytes int64) string {
	switch {
	case every == 0 && bytes == 0:
		return "one file"
	case every == 0:
		return rotate.FormatSize(bytes)
	case bytes == 0:
		return every.String()
	}
	return every.String() + "," + rotate.FormatSize(bytes)
}
