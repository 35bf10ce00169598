package profiler

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/hook"
)

// none is the value of a variable that turns off SyncEvery, rotation or Export.
const none = "none"

// environ applies the environment to c. get is os.Getenv, except in tests. A variable that
// is set overrides the option. environ returns a warning for each invalid value and does
// not change that setting.
func (c *config) environ(get func(string) string) (warnings []string) {
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
	set("PROFILE_OUT", func() string { return c.output }, func(v string) (Option, error) { return Output(v), nil })
	set("PROFILE_RATE", func() string { return strconv.Itoa(c.rate) }, func(v string) (Option, error) {
		n, err := strconv.Atoi(v)
		if err != nil {
			return nil, errors.New("not a whole number of ticks a second")
		}
		return Rate(n), nil
	})
	set("PROFILE_SOURCE", func() string { return string(c.source) }, func(v string) (Option, error) { return Source(SourceKind(v)), nil })
	set("PROFILE_BUDGET", func() string { return fmt.Sprintf("%v %%", c.budget) }, func(v string) (Option, error) {
		p, err := strconv.ParseFloat(strings.TrimSuffix(v, "%"), 64)
		if err != nil {
			return nil, errors.New("not a number of percent")
		}
		return Budget(p), nil
	})
	set("PROFILE_COMPRESSION", func() string { return string(c.compression) }, func(v string) (Option, error) { return Compression(Codec(v)), nil })
	set("PROFILE_SYNC", func() string { return describeSync(c.sync) }, func(v string) (Option, error) {
		if v == none {
			return func(c *config) error { c.sync = 0; return nil }, nil
		}
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, errors.New("not a duration such as 1s")
		}
		return SyncEvery(d), nil
	})
	set("PROFILE_ROTATE", func() string { return c.rotate.String() }, func(v string) (Option, error) {
		r, err := parseRotation(v)
		return func(c *config) error { return c.setRotation(r) }, err
	})
	set("PROFILE_KEEP", func() string { return c.keep.String() }, func(v string) (Option, error) {
		k, err := parseKept(v)
		return func(c *config) error { return c.setKept(k) }, err
	})
	set("PROFILE_PAUSE", func() string { return c.maxPause.String() }, func(v string) (Option, error) {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, errors.New("not a duration such as 50ms")
		}
		return MaxPause(d), nil
	})
	for _, x := range []struct {
		name string
		flag *bool
	}{{"PROFILE_SYSTEM", &c.system}, {"PROFILE_LEAKS", &c.leaks}} {
		set(x.name, func() string { return strconv.FormatBool(*x.flag) }, func(v string) (Option, error) {
			on, err := strconv.ParseBool(v)
			if err != nil {
				return nil, errors.New("neither 1 nor 0")
			}
			return func(*config) error { *x.flag = on; return nil }, nil
		})
	}

	c.openTelemetry(get)
	set("PROFILE_SERVICE", func() string { return strconv.Quote(c.service) }, func(v string) (Option, error) {
		name, version := v, ""
		if at := strings.LastIndexByte(v, '@'); at >= 0 {
			name, version = v[:at], v[at+1:]
		}
		return Service(name, version), nil
	})

	if v := get("PROFILE_EXPORT"); v != "" && c.oneFile == "" && !c.noFile {
		c.exports = nil
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item == "" || item == none {
				continue
			}
			format, path, _ := strings.Cut(item, "=")
			if err := checkExport(format, path); err != nil {
				warn("PROFILE_EXPORT: %q: %v; not exporting that", item, err)
				continue
			}
			c.exports = append(c.exports, hook.Target{Format: format, Path: path})
		}
	}
	return warnings
}

// openTelemetry takes the service from OpenTelemetry's variables if the program does not name one. What is invalid is
// left out without a warning: the variables are not for the profiler.
func (c *config) openTelemetry(get func(string) string) {
	if c.service != "" || c.serviceVersion != "" {
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
