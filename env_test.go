package profiler

import (
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv/cmp"

	_ "github.com/gotach/profiler/export"
	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/session"
	"github.com/gotach/profiler/internal/testenv"
)

// env returns a function like os.Getenv, for an environment that has only these variables.
func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		m[k] = v
	}
	return func(k string) string { return m[k] }
}

func TestEnvironment(t *testing.T) {
	def := config{Output: "%e-%p.tach", Rate: 1000, Budget: 1, Source: "auto", Compression: "zstd", KeepFiles: 100, KeepBytes: 1e9, MaxPause: 10 * time.Millisecond}
	noFiles := new(struct{ session.Sink })
	with := func(change func(*config)) config {
		c := def
		change(&c)
		return c
	}
	for _, tc := range []struct {
		name    string
		opts    []Option
		env     []string
		want    config
		warning string // a part of the only warning; "" if there is none
	}{
		{name: "nothing", want: def},
		{name: "sync", env: []string{"PROFILE_SYNC=1s"}, want: with(func(c *config) { c.Sync = time.Second })},
		{name: "sync not a duration", env: []string{"PROFILE_SYNC=often"}, want: def, warning: `PROFILE_SYNC="often": not a duration such as 1s; using none`},
		{name: "sync too often", env: []string{"PROFILE_SYNC=1ms"}, want: def, warning: "1ms is less than 10ms"},
		{name: "empty is unset", env: []string{"PROFILE_OUT=", "PROFILE_RATE=", "PROFILE_BUDGET=", "PROFILE_SOURCE=", "PROFILE_COMPRESSION=", "PROFILE_SYNC=", "PROFILE_ROTATE=", "PROFILE_KEEP=", "PROFILE_PAUSE=", "PROFILE_SYSTEM=", "PROFILE_LEAKS=", "PROFILE_EXPORT=", "PROFILE_SERVICE=", "OTEL_SERVICE_NAME=", "OTEL_RESOURCE_ATTRIBUTES="}, want: def},
		{name: "all", env: []string{"PROFILE_OUT=x.tach", "PROFILE_RATE=250", "PROFILE_BUDGET=2.5", "PROFILE_SOURCE=portable", "PROFILE_COMPRESSION=none", "PROFILE_PAUSE=50ms", "PROFILE_SYSTEM=1", "PROFILE_LEAKS=1", "PROFILE_SERVICE=shop/checkout@1.4.2", "PROFILE_EXPORT=pprof=a.pb.gz, collapsed=b.txt"},
			want: with(func(c *config) {
				c.Output, c.Rate, c.Budget, c.Source, c.Compression, c.System, c.Leaks, c.MaxPause = "x.tach", 250, 2.5, "portable", "none", true, true, 50*time.Millisecond
				c.Service, c.ServiceVersion = "shop/checkout", "1.4.2"
				c.Exports = []hook.Target{{Format: "pprof", Path: "a.pb.gz"}, {Format: "collapsed", Path: "b.txt"}}
			})},
		{name: "rotate by time", env: []string{"PROFILE_ROTATE=60s"}, want: with(func(c *config) { c.RotateEvery = time.Minute })},
		{name: "rotate by size", env: []string{"PROFILE_ROTATE=100MB"}, want: with(func(c *config) { c.RotateBytes = 1e8 })},
		{name: "rotate by both", env: []string{"PROFILE_ROTATE=1h30m, 64mib"}, want: with(func(c *config) { c.RotateEvery, c.RotateBytes = 90*time.Minute, 64<<20 })},
		{name: "rotate too often", env: []string{"PROFILE_ROTATE=10ms"}, want: def, warning: "PROFILE_ROTATE=\"10ms\": 10ms is less than 1s; using one file"},
		{name: "rotate too small", env: []string{"PROFILE_ROTATE=5KB"}, want: def, warning: "PROFILE_ROTATE=\"5KB\": 5 KB are less than 1 MB"},
		{name: "rotate nonsense", env: []string{"PROFILE_ROTATE=60"}, want: def, warning: "not a duration such as 60s, a size such as 100MB"},
		{name: "rotate by two times", env: []string{"PROFILE_ROTATE=60s,1h"}, want: def, warning: "not a duration"},
		{name: "rotate by too large a size", env: []string{"PROFILE_ROTATE=9999999999TB"}, want: def, warning: "not a duration"},
		{name: "keep files", env: []string{"PROFILE_KEEP=20"}, want: with(func(c *config) { c.KeepFiles = 20 })},
		{name: "keep both", env: []string{"PROFILE_KEEP=2 GB,20"}, want: with(func(c *config) { c.KeepFiles, c.KeepBytes = 20, 2e9 })},
		{name: "keep none", env: []string{"PROFILE_KEEP=0"}, want: def, warning: "not a number of files such as 20"},
		{name: "keep too little", env: []string{"PROFILE_KEEP=1MB"}, want: def, warning: "PROFILE_KEEP=\"1MB\": 1 MB are less than 2 MB; using 100,1 GB"},
		{name: "percent sign in the budget", env: []string{"PROFILE_BUDGET=3%"}, want: with(func(c *config) { c.Budget = 3 })},
		{name: "environment wins over every option",
			opts: []Option{Output("code.tach"), Rate(10), Budget(5), Source(Native), Compression(Zstd), SyncEvery(time.Second), RotateEvery(time.Minute), RotateBytes(1e8),
				KeepFiles(3), KeepBytes(5e9), SystemGoroutines(), Leaks(), Service("code", "1"), Export("pprof", "code")},
			env: []string{"PROFILE_OUT=env.tach", "PROFILE_RATE=20", "PROFILE_BUDGET=6", "PROFILE_SOURCE=portable", "PROFILE_COMPRESSION=none", "PROFILE_SYNC=2s", "PROFILE_ROTATE=1h",
				"PROFILE_KEEP=7", "PROFILE_SYSTEM=0", "PROFILE_LEAKS=0", "PROFILE_SERVICE=env", "OTEL_SERVICE_NAME=other", "PROFILE_EXPORT=collapsed=env"},
			want: with(func(c *config) {
				c.Output, c.Rate, c.Budget, c.Source, c.Compression, c.Sync, c.RotateEvery = "env.tach", 20, 6, "portable", "none", 2*time.Second, time.Hour
				c.Service = "env"
				c.KeepFiles, c.Exports = 7, []hook.Target{{Format: "collapsed", Path: "env"}}
			})},
		{name: "none undoes options", opts: []Option{SyncEvery(time.Second), RotateEvery(time.Minute), Export("pprof", "code")}, env: []string{"PROFILE_SYNC=none", "PROFILE_ROTATE=none", "PROFILE_EXPORT=none"}, want: def},
		{name: "options stay without variables", opts: []Option{Rate(10), SyncEvery(time.Second), RotateBytes(1e8), KeepFiles(3), SystemGoroutines(), Leaks(), MaxPause(time.Second), Export("pprof", "code")},
			want: with(func(c *config) {
				c.Rate, c.Sync, c.RotateBytes, c.KeepFiles, c.System, c.Leaks, c.MaxPause = 10, time.Second, 1e8, 3, true, true, time.Second
				c.Exports = []hook.Target{{Format: "pprof", Path: "code"}}
			})},
		{name: "bad value leaves the option", opts: []Option{Rate(10)}, env: []string{"PROFILE_RATE=x"}, want: with(func(c *config) { c.Rate = 10 }), warning: "using 10"},
		{name: "bad rotation leaves the option", opts: []Option{RotateEvery(time.Minute), RotateBytes(64 << 20)}, env: []string{"PROFILE_ROTATE=1h,1KB"},
			want: with(func(c *config) { c.RotateEvery, c.RotateBytes = time.Minute, 64<<20 }), warning: "using 1m0s,64 MiB"},
		{name: "no file in spite of other settings", opts: []Option{Output("code.tach"), func(c *config) error { c.Sink = noFiles; return nil }, RotateBytes(1e8)}, env: []string{"PROFILE_OUT=env.tach", "PROFILE_ROTATE=1h", "PROFILE_EXPORT=pprof=x"},
			want: with(func(c *config) { c.Output, c.Sink = "", noFiles })},
		{name: "one file in spite of other settings", opts: []Option{Output("code.tach"), func(c *config) error { c.OneFile = "one.tach"; return nil }, RotateBytes(1e8)}, env: []string{"PROFILE_OUT=env.tach", "PROFILE_ROTATE=1h", "PROFILE_EXPORT=pprof=x"},
			want: with(func(c *config) { c.Output, c.OneFile = "one.tach", "one.tach" })},
		{name: "pause nonsense", env: []string{"PROFILE_PAUSE=5"}, want: def, warning: `PROFILE_PAUSE="5": not a duration such as 50ms; using 10ms`},
		{name: "no pause", env: []string{"PROFILE_PAUSE=0s"}, opts: []Option{MaxPause(time.Second)}, want: with(func(c *config) { c.MaxPause = time.Second }), warning: "MaxPause: 0s is not above 0; using 1s"},
		{name: "OpenTelemetry's service", env: []string{"OTEL_SERVICE_NAME=cart"}, want: with(func(c *config) { c.Service = "cart" })},
		{name: "OpenTelemetry's attributes", env: []string{"OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=a, service.name = my%20shop%2Ccart ,service.version=2%,x"}, want: with(func(c *config) { c.Service, c.ServiceVersion = "my shop,cart", "2%" })},
		{name: "OpenTelemetry's name and version", env: []string{"OTEL_SERVICE_NAME=cart", "OTEL_RESOURCE_ATTRIBUTES=service.name=shop,service.version=2"}, want: with(func(c *config) { c.Service, c.ServiceVersion = "cart", "2" })},
		{name: "OpenTelemetry's nonsense", env: []string{"OTEL_SERVICE_NAME=a\nb", "OTEL_RESOURCE_ATTRIBUTES=,=,service.name,service.version=%zz%"}, want: def},
		{name: "the option's service counts before OpenTelemetry's", opts: []Option{Service("code", "1")}, env: []string{"OTEL_SERVICE_NAME=cart", "OTEL_RESOURCE_ATTRIBUTES=service.version=2"}, want: with(func(c *config) { c.Service, c.ServiceVersion = "code", "1" })},
		{name: "service nonsense", opts: []Option{Service("code", "")}, env: []string{"PROFILE_SERVICE=a\x00b"}, want: with(func(c *config) { c.Service = "code" }), warning: `using "code"`},
		{name: "system nonsense", env: []string{"PROFILE_SYSTEM=maybe"}, want: def, warning: `PROFILE_SYSTEM="maybe": neither 1 nor 0; using false`},
		{name: "leaks nonsense", env: []string{"PROFILE_LEAKS=maybe"}, want: def, warning: `PROFILE_LEAKS="maybe": neither 1 nor 0; using false`},

		{name: "rate not a number", env: []string{"PROFILE_RATE=fast"}, want: def, warning: `PROFILE_RATE="fast": not a whole number of ticks a second; using 1000`},
		{name: "rate out of bounds", env: []string{"PROFILE_RATE=0"}, want: def, warning: `PROFILE_RATE="0": Rate: 0 is not between 1 and 10000; using 1000`},
		{name: "budget not a number", env: []string{"PROFILE_BUDGET=NaN"}, want: def, warning: `PROFILE_BUDGET="NaN"`},
		{name: "budget out of bounds", env: []string{"PROFILE_BUDGET=101"}, want: def, warning: "using 1 %"},
		{name: "unknown source", env: []string{"PROFILE_SOURCE=ebpf"}, want: def, warning: `"ebpf" is not one of auto, native, portable, off; using auto`},
		{name: "unknown compression", env: []string{"PROFILE_COMPRESSION=gzip"}, want: def, warning: "using zstd"},
		{name: "unknown export", env: []string{"PROFILE_EXPORT=pprof=a,bmp=b"}, want: with(func(c *config) { c.Exports = []hook.Target{{Format: "pprof", Path: "a"}} }), warning: `PROFILE_EXPORT: "bmp=b": "bmp" is not a format`},
		{name: "export without a path", env: []string{"PROFILE_EXPORT=pprof"}, want: def, warning: "no path for pprof"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := &testenv.Log{}
			got := testenv.Must(newConfig(append(tc.opts, Logger(log.Logger())), env(tc.env...)))
			got.Log = nil
			testenv.NoDiff(t, "config", cmp.Diff(tc.want, got, cmp.Exported()))
			lines := log.Lines()
			testenv.Same(t, strings.Join(lines, "\n"), len(lines), min(len(tc.warning), 1))
			testenv.Has(t, "the warning", strings.Join(lines, "\n"), tc.warning)
		})
	}
}

func TestBadOption(t *testing.T) {
	for want, o := range map[string]Option{
		"Output: the path is empty":                    Output(""),
		"Rate: 0 is not between 1 and 10000":           Rate(0),
		"Rate: 10001 is not between":                   Rate(10001),
		"Budget: 0 percent is not above 0":             Budget(0),
		"Source: \"x\" is not one of auto, native":     Source("x"),
		"Compression: \"lz4\" is not one of zstd":      Compression("lz4"),
		"Export: \"bmp\" is not a format; there are":   Export("bmp", "x"),
		"Export: no path for pprof":                    Export("pprof", ""),
		"RotateEvery: -1s is less than 1s":             RotateEvery(-time.Second),
		"RotateBytes: 0 bytes are less than 1 MB":      RotateBytes(0),
		"KeepFiles: 0 is less than 1":                  KeepFiles(0),
		"KeepBytes: 1999999 bytes are less than 2":     KeepBytes(1999999),
		"SyncEvery: 1ms is less than 10ms":             SyncEvery(time.Millisecond),
		"MaxPause: 0s is not above 0":                  MaxPause(0),
		"Service: \"\\n\" is longer than 255 bytes or": Service("x", "\n"),
	} {
		s, err := Open(o)
		testenv.Fails(t, want, err, want)
		_ = s.Stop()
	}
}

// FuzzEnvironment checks that no value of a variable leads to a configuration that the
// options would refuse.
func FuzzEnvironment(f *testing.F) {
	f.Add("x.tach", "1000", "1", "auto", "zstd", "pprof=a.pb.gz", "60s,100MB", "20,1GB", "1s", "1")
	f.Add("%p%h%e%t%%%", "-1", "1e400", "\x00", "NONE", "=,==,pprof==", "-1s", "-1", "-1s", "yes")
	f.Fuzz(func(t *testing.T, out, rate, budget, source, compression, exports, rotate, keep, sync, system string) {
		log := &testenv.Log{}
		var c config
		var err error
		size := len(out) + len(rate) + len(budget) + len(source) + len(compression) + len(exports) + len(rotate) + len(keep) + len(sync) + len(system)
		testenv.Bounded(t, 1<<20+1000*size, func() {
			c, err = newConfig([]Option{Logger(log.Logger())}, env("PROFILE_OUT="+out, "PROFILE_RATE="+rate, "PROFILE_BUDGET="+budget,
				"PROFILE_SOURCE="+source, "PROFILE_COMPRESSION="+compression, "PROFILE_EXPORT="+exports, "PROFILE_ROTATE="+rotate, "PROFILE_KEEP="+keep, "PROFILE_SYNC="+sync, "PROFILE_PAUSE="+sync, "PROFILE_SYSTEM="+system))
		})
		testenv.OK(t, err)
		for _, o := range []Option{Output(c.Output), Rate(c.Rate), Budget(c.Budget), Source(SourceKind(c.Source)), Compression(Codec(c.Compression)), KeepFiles(c.KeepFiles), KeepBytes(c.KeepBytes), MaxPause(c.MaxPause)} {
			testenv.OK(t, o(&config{}))
		}
		testenv.FailIf(t, c.RotateEvery != 0 && RotateEvery(c.RotateEvery)(&config{}) != nil || c.RotateBytes != 0 && RotateBytes(c.RotateBytes)(&config{}) != nil, "rotates every %v and %d bytes", c.RotateEvery, c.RotateBytes)
		testenv.FailIf(t, c.Sync != 0 && c.Sync < session.MinSync, "syncs every %v", c.Sync)
		for _, e := range c.Exports {
			testenv.OK(t, checkExport(e.Format, e.Path))
		}
	})
}
