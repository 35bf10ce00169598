package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// hostileTach are valid files with values that no program records. Times of samples are in µs since the start.
var hostileTach = map[string]func(f *fixture){
	"time-2^62":      func(f *fixture) { f.at(1, 1<<61); f.at(1, 1<<62) },
	"time-2^63":      func(f *fixture) { f.at(1, 1); f.at(1, 1<<63); f.at(2, math.MaxUint64) },
	"time-100-years": func(f *fixture) { f.at(1, 1); f.at(1, century); f.at(2, 1); f.at(2, century/2) },
	"time-100-years-idle": func(f *fixture) {
		f.at(1, 1)
		f.at(2, 1)
		for i := range uint64(20) {
			f.put(2, 0, century/20*(i+1), 0, wait("chan receive"), own("main.go", "work", 3))
		}
	},
	"time-backwards": func(f *fixture) {
		for i := range uint64(100) {
			f.at(1, (100-i)*1_000_000)
			f.at(2, i%2*century)
		}
	},
	"time-before-start": func(f *fixture) { f.at(1, -century&math.MaxUint64); f.at(1, 5); f.at(1, math.MaxUint64) },
	"time-many-years": func(f *fixture) {
		for id := range uint64(200) {
			f.at(id, 1)
			f.at(id, century)
			f.put(id, 0, century+uint64(id), 0, wait("select"), own("main.go", "work", 3))
		}
	},
	"ids": func(f *fixture) {
		for _, id := range []uint64{0, 1, 1<<31 - 1, 1 << 32, 1 << 40, 1<<62 - 1, 1 << 62, 1 << 63, math.MaxUint64} {
			for _, in := range []uint32{0, 1, 2, 3, math.MaxUint32} {
				for ms := range uint64(3) {
					f.put(id, in, 1000*ms, onCPU*tachyon.Status(ms%2), own("main.go", "work", 3))
				}
			}
			f.goroutine(id, "main.main", "main.go:3").Parent = ^id
		}
	},
	"lines": func(f *fixture) {
		for i, line := range []int{math.MinInt32, -1, 0, 1, math.MaxInt32} {
			f.add(uint64(i+1), 1, onCPU, own("main.go", "work", line), own("main.go", fmt.Sprint("f", i), line))
			f.add(uint64(i+1), 9, 0, locked("sync.Mutex.Lock", line, own("main.go", "work", line))...)
			f.object(line, tachyon.ObjectMutex, math.MaxUint64, "main.mu")
		}
	},
	"long-names": func(f *fixture) {
		long := strings.Repeat("x/\u202e\x1b]0;", testenv.Times(1<<9, 8<<10))
		for i := range uint64(3) {
			f.add(i, 1+i, onCPU, tachyon.Frame{File: long, Func: "main." + long + fmt.Sprint(i), Line: 3}, tachyon.Frame{File: "/" + long, Func: long})
			f.goroutine(i, long, long+":7").Labels = []tachyon.LabelSpan{{From: 1, Labels: map[string]string{"a": long, long: "b"}}}
		}
		f.session = tachyon.Session{Program: long, Host: long, Service: long, GoVersion: long, Error: long, Start: time.UnixMicro(fixtureStart), Source: "native"}
	},
	"labels": func(f *fixture) {
		g := f.goroutine(1, "main.main", "main.go:3")
		for i := range testenv.Times(2_000, 100_000) {
			g.Labels = append(g.Labels, tachyon.LabelSpan{From: 10 * uint64(i), Labels: map[string]string{"a": fmt.Sprint(i), fmt.Sprint("key", i): "b"}})
		}
		for ms := range uint64(50) {
			f.add(1, ms, onCPU, own("main.go", "work", 3))
		}
	},
	"label-times": func(f *fixture) {
		for id, from := range []uint64{tachyon.MaxTime, tachyon.MaxTime - 1, century, -century & math.MaxUint64, 0} {
			*f.goroutine(uint64(id), "main.main", "main.go:3") = tachyon.Goroutine{
				ID: uint64(id), First: from, Last: -from, FirstWeight: min(from, tachyon.MaxTime),
				Labels: []tachyon.LabelSpan{{From: from, Labels: map[string]string{"a": "b"}}, {From: -from, Labels: map[string]string{"a": "c"}}, {From: 0}},
			}
			f.add(uint64(id), 1, onCPU, own("main.go", "work", 3))
			f.add(uint64(id), 2, 0, wait("select"), own("main.go", "work", 3))
		}
	},
	"objects": func(f *fixture) {
		f.session.Objects = tachyon.AllObjects
		for _, n := range []int32{math.MinInt32, -1, 0, 1, 2, math.MaxInt32} {
			f.add(uint64(n), 1, 0, locked("select", int(n), own("main.go", "work", 3))...)
			f.add(uint64(n), 100, 0, locked("select", int(n), own("main.go", "work", 3))...)
			for _, kind := range []string{tachyon.ObjectSelect, tachyon.ObjectChannel, "", "\x1b"} {
				f.records.Objects = append(f.records.Objects, tachyon.Object{
					Number: n, Kind: kind, Addr: math.MaxUint64, Static: math.MaxUint64, Symbol: "main.x", Offset: math.MaxUint64, Capacity: math.MinInt64,
					Members: []int32{n, -1, 0, 1, 2, math.MaxInt32},
				})
			}
		}
	},
	"session-max": func(f *fixture) { f.limits(math.MaxInt64, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)) },
	"session-min": func(f *fixture) { f.limits(math.MinInt64, time.Time{}) },
	"pcs": func(f *fixture) {
		f.add(1, 1, onCPU, own("main.go", "work", 3))
		must(f.w.AddMetadata(tachyon.KindPCs, tachyon.LeafPCs{TextStart: 1 << 63, TextSize: math.MaxUint64, PCs: []tachyon.LeafPC{
			{Addr: 0, CPU: math.MaxUint32, Wall: math.MaxUint32, CPUTime: math.MaxUint64, WallTime: math.MaxUint64}, {Addr: math.MaxUint64, Wall: 1}, {Addr: 1 << 63, Wall: 1},
		}}))
	},
	"requests": func(f *fixture) {
		g := f.goroutine(1, "main.main", "main.go:3")
		for i := range uint64(40) {
			f.put(1, 0, i*century/40+1, onCPU, own("main.go", fmt.Sprint("step", i%3), 3), own("main.go", "serve", 3))
			f.put(1, 0, i*century/40+5, 0, wait("IO wait"), own("main.go", "serve", 3))
			g.Labels = append(g.Labels, tachyon.LabelSpan{From: i * century / 40, Labels: map[string]string{"a": fmt.Sprint(i)}})
		}
	},
	"locks": func(f *fixture) {
		for i := range uint64(40) {
			f.put(1+i%4, 0, i*century/40+1, onCPU, own("main.go", "hold", 3))
			f.put(1+i%3, 0, i*century/40+9, 0, locked("sync.Mutex.Lock", 1, own("main.go", "work", 3))...)
		}
		f.object(1, tachyon.ObjectMutex, 64, "main.mu")
	},
}

const century = 100 * 365 * 86400 * 1_000_000 // µs

// at adds a sample that runs, at a time in µs.
func (f *fixture) at(id, us uint64) {
	f.put(id, 0, us, onCPU, own("main.go", "work", 3), own("main.go", "main", 9))
}

// limits sets all numbers of the session.
func (f *fixture) limits(n int64, start time.Time) {
	f.add(1, 1, onCPU, own("main.go", "work", 3))
	f.add(2, 900, 0, wait("select"), own("main.go", "work", 3))
	d := time.Duration(n)
	f.session = tachyon.Session{
		Program: "x", Source: "native", Start: start, Duration: max(0, min(d, century*time.Microsecond)), Rate: int(n), RateReached: math.MaxFloat64, Budget: -math.MaxFloat64, GOMAXPROCS: int(n), PID: int(n),
		Part: int(n), SessionStart: start, Markers: true, Leaks: &tachyon.ProvenLeaks{Count: int(n), Groups: []tachyon.ProvenLeak{{Count: int(n)}}},
		Counts: tachyon.Counts{
			Cost: d, TicksAsked: n, TicksReached: n, TicksForBudget: n, TicksIdle: n, Samples: n, Dropped: n, Torn: n, MaxGoroutines: int(n), TicksRefused: n, Blind: d,
			NotSeen: d, Throttled: d, ThrottledPeriods: n, ProcessCPU: d, CPUAtTicks: d, GoroutinesUntracked: n, SignalTaken: n,
		},
	}
}

// hostileFiles writes files of all formats with hostile values to a folder.
func hostileFiles(dir string) (paths []string) {
	write := func(name string, b []byte) {
		paths = append(paths, filepath.Join(dir, name))
		must(os.WriteFile(paths[len(paths)-1], b, 0o600))
	}
	for name, fill := range hostileTach {
		path := filepath.Join(dir, name+".tach")
		paths = append(paths, path)
		writeFixture(path, func(f *fixture, _ []string) { f.session.Start = time.UnixMicro(fixtureStart); fill(f) })
	}
	// The header is in no checksum.
	type header map[string]struct{ at, v uint64 }
	changes := func(path string, list header) {
		for name, field := range list {
			b := testenv.Must(os.ReadFile(path))
			binary.LittleEndian.PutUint64(b[field.at:], field.v)
			write(name+filepath.Ext(path), b)
		}
	}
	plain := filepath.Join(dir, "plain.tach")
	writeFixture(plain, func(f *fixture, _ []string) {
		for i := range uint64(50) {
			f.add(1+i%2, i, onCPU*tachyon.Status(i%3/2), own("main.go", "work", 3))
		}
	})
	changes(plain, header{
		"interval-0": {16, 0}, "interval-1": {16, 1}, "interval-2^63": {16, 1 << 63}, "interval-max": {16, math.MaxUint64}, "interval-century": {16, century},
		"start-0": {8, 0}, "start-2^62": {8, 1 << 62}, "start-2^63": {8, 1 << 63}, "start-max": {8, math.MaxUint64},
		"samples-max": {24, 0xffff_ffff_ffff_ffff}, "strings-max": {32, math.MaxUint64}, "frames-max": {40, 1 << 62},
	})
	changes("../../testdata/tachyon/cpython-3.15/deep.bin", header{
		"samples-2^62": {28, 1 << 62}, "samples-1": {28, 1}, "cpython-interval": {20, math.MaxUint64}, "cpython-interval-0": {20, 0},
	})
	write("deep.folded", []byte(strings.Repeat("f;", 100_000)+"g 1\n"+strings.Repeat("a;b;", 50_000)+"g 9223372036854775807\n"))
	write("max.folded", []byte("a;b 9223372036854775807\na;c 9223372036854775807\na 9223372036854775807\n"))
	write("times.jsonl", []byte(`{"gotach":"file","start_us":18446744073709551615,"interval_us":18446744073709551615}
{"thread_id":1,"timestamp":0,"status":3,"frames":[["a.go","a",-2147483648]]}
{"thread_id":1,"timestamp":18446744073709551615,"status":255,"frames":[["a.go","a",2147483647]]}
{"thread_id":1,"timestamp":9223372036854775808,"status":0,"frames":[["","[select]",2147483647]]}
`))
	write("back.jsonl", []byte(`{"gotach":"file","start_us":1000,"interval_us":9007199254740992}
{"thread_id":1,"timestamp":0,"status":3,"frames":[["a.go","a",-2147483648]]}
{"thread_id":1,"timestamp":9007199254740992,"status":255,"frames":[["a.go","a",2147483647]]}
{"thread_id":1,"timestamp":4503599627370496,"status":0,"frames":[["","[select]",2147483647]]}
`))
	write("far.jsonl", []byte(`{"thread_id":1,"timestamp":1,"status":3,"frames":[["a.go","a",1]]}
{"thread_id":1,"timestamp":4000000000000000000,"status":3,"frames":[["a.go","a",1]]}
`))
	write("overflow.pb.gz", hostilePprof())
	for name, ticks := range map[string]string{"0": "0", "tiny": "1e-320", "max": "1e308", "negative": "-5", "nan": "nan", "inf": "inf"} {
		b := []byte("NYTProf 5 0\n:ticks_per_sec=" + ticks + "\n:basetime=9e18\n!calls=1\n")
		b = append(b, 'P', 1, 0)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(math.MaxFloat64))
		b = append(b, "@\x01\x00\x00\x00\x00\x00'\x08"...)
		b = append(b, "/etc/x.p"...)
		for _, t := range []uint32{1, math.MaxInt32, 1 << 31, math.MaxUint32} {
			b = binary.BigEndian.AppendUint32(append(b, '+', 0xff), t)
			b = append(b, 1, 3)
		}
		b = append(b, 'p', 1)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(math.Inf(-1)))
		write("ticks-"+name+".nytprof", b)
	}
	for name, v := range map[string]string{"int": "9223372036854775807", "min": "-9223372036854775808", "negative": "-5"} {
		base := filepath.Join(dir, "spx-"+name)
		meta := `{"key":"k","exec_ts":` + v + `,"host_name":"h","process_pid":1,"process_tid":0,"cli":1,"cli_command_line":"x","http_request_uri":"","http_method":"",` +
			`"http_host":"","custom_metadata_str":null,"wall_time_ms":` + v + `,"peak_memory_usage":` + v + `,"called_function_count":` + v + `,"call_count":` + v +
			`,"recorded_call_count":` + v + `,"time":1,"enabled_metrics":["wt","zm"]}`
		must(os.WriteFile(base+".json", []byte(meta), 0o600))
		paths = append(paths, base+".json")
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		fmt.Fprintf(w, "[events]\n0 1 0 0\n1 1 %s %s\n1 0 1e308 -1e308\n0 0 %s 1\n[functions]\na\nb\n", v, v, v)
		must(w.Close())
		must(os.WriteFile(base+".txt.gz", z.Bytes(), 0o600))
	}
	dcpi := testenv.Must(os.ReadFile("../../internal/formats/dcpi/testdata/4-adjacent-chunks.dcpi"))
	for i, line := range bytes.Split(dcpi[:bytes.LastIndex(dcpi, []byte("\n"))], []byte("\n")) {
		if key, _, ok := bytes.Cut(line, []byte("\t")); ok && len(key) < 20 && !bytes.ContainsAny(key, "\x00") {
			for _, v := range []string{"18446744073709551615", "-1", "0", "ffffffffffffffff"}[:testenv.Times(1, 4)] {
				write(fmt.Sprintf("dcpi-%d-%s.dcpi", i, v), bytes.Replace(dcpi, line, append(append(bytes.Clone(key), '\t'), v...), 1))
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// hostilePprof returns a profile whose sums do not fit into 64 bits.
func hostilePprof() []byte {
	f := &pprof.Function{ID: math.MaxUint64, Name: "f", StartLine: math.MinInt64}
	l := &pprof.Location{ID: math.MaxUint64, Address: math.MaxUint64, Line: []pprof.Line{{Function: f, Line: math.MaxInt64}, {Function: f, Line: math.MinInt64}}}
	p := &pprof.Profile{
		SampleType: []*pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "wall", Unit: "nanoseconds"}}, Period: math.MinInt64, PeriodType: &pprof.ValueType{Type: "wall", Unit: "nanoseconds"},
		TimeNanos: math.MaxInt64, DurationNanos: math.MinInt64, Function: []*pprof.Function{f}, Location: []*pprof.Location{l},
	}
	for range 3 {
		p.Sample = append(p.Sample, &pprof.Sample{Location: []*pprof.Location{l, l}, Value: []int64{math.MaxInt64, math.MaxInt64}},
			&pprof.Sample{Location: []*pprof.Location{l}, Value: []int64{math.MinInt64, math.MinInt64}, NumLabel: map[string][]int64{"goroutine": {math.MinInt64}}})
	}
	var b bytes.Buffer
	must(p.Write(&b))
	return b.Bytes()
}

// TestHostileValues: no value in a file makes a command panic, hang, or take much memory.
func TestHostileValues(t *testing.T) {
	testenv.Long(t)
	testenv.Again(t) // the detector needs more memory than the commands may have
	t.Parallel()
	for _, f := range findHostile(t, hostileFiles(t.TempDir())) {
		t.Errorf("gotach %s with %s:\n%s", f.command, filepath.Base(f.path), f.text)
	}
}
