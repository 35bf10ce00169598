package formats

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

const stopsBegin = 1_700_000_000_000_000

// stopsFile writes a file of a process with a sample, and stops of goroutines 5 and 6 at each of the times.
func stopsFile(t *testing.T, path string, pid, part int, start uint64, until ...uint64) {
	t.Helper()
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000}))
	testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: 5, Time: start + 1000}, []tachyon.Frame{{File: "a.go", Func: "main.f", Line: 7}}))
	for _, at := range until {
		testenv.OK(t, w.WriteRecords(&tachyon.Records{Stops: &tachyon.Stops{Until: at, List: []tachyon.GoroutineStops{{ID: 5, N: at / 1000}, {ID: 6, N: uint64(pid), AtLeast: true}}}}))
	}
	testenv.OK(t, w.AddMetadata(tachyon.KindSession, tachyon.Session{Host: "h", PID: pid, Part: part, Stops: true, Duration: time.Second,
		Start: time.UnixMicro(int64(start)), SessionStart: time.UnixMicro(stopsBegin)}))
	testenv.OK(t, w.Close())
}

// stopsIn returns the stops of a stream of files as text. Times are in ms since the first file's start.
func stopsIn(t *testing.T, paths ...string) string {
	t.Helper()
	var files []stream.File
	for _, path := range paths {
		r := testenv.Must(reader.Open(path))
		defer r.Close()
		files = append(files, stream.File{Name: path, Stream: r})
	}
	src := testenv.Must(stream.New(files, stream.Options{}))
	var b strings.Builder
	for s, err := range src.Stops() {
		testenv.OK(t, err)
		begin := src.Header().Start
		fmt.Fprintf(&b, "%d-%d:", int64(s.From-begin)/1000, int64(s.Until-begin)/1000)
		for _, g := range s.List {
			fmt.Fprintf(&b, " %d %d", g.Goroutine, g.N)
			if g.AtLeast {
				b.WriteByte('+')
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestStops reads stops of several files, of their joined copy, of other formats' copies and of excerpts.
func TestStops(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	stopsFile(t, path("1.tach"), 4, 1, stopsBegin, 1_000_000, 2_000_000)
	stopsFile(t, path("2.tach"), 4, 2, stopsBegin+3_000_000, 500_000)
	stopsFile(t, path("other.tach"), 9, 1, stopsBegin+100_000, 700_000)
	files := []string{path("1.tach"), path("2.tach")}
	const want = "0-1000: 5 1000 6 4+\n1000-2000: 5 2000 6 4+\n3000-3500: 5 500 6 4+\n"
	if got := stopsIn(t, files...); got != want {
		t.Errorf("of two files:\n%swant\n%s", got, want)
	}
	if got, want := stopsIn(t, append(files, path("other.tach"))...), "0-1000: 5 1000 6 4+\n1000-2000: 5 2000 6 4+\n100-800: 1000000000005 700 1000000000006 9+\n3000-3500: 5 500 6 4+\n"; got != want {
		t.Errorf("of two processes:\n%swant\n%s", got, want)
	}
	convert := func(out string, from ...string) string {
		t.Helper()
		in := testenv.Must(OpenAll(from, Options{}))
		defer in.Close()
		testenv.OK(t, in.Convert(path(out), "", Options{}))
		return path(out)
	}
	const joined = "0-1000: 5 1000 6 4+\n1000-2000: 5 2000 6 4+\n2000-3000:\n3000-3500: 5 500 6 4+\n"
	if got := stopsIn(t, convert("joined.tach", files...)); got != joined {
		t.Errorf("of the joined file:\n%swant\n%s", got, joined)
	}
	if got := stopsIn(t, convert("again.tach", convert("x.jsonl", files...))); got != joined {
		t.Errorf("of the joined file, as lines and back:\n%swant\n%s", got, joined)
	}
	if got := stopsIn(t, convert("processes.tach", files[0], path("other.tach"))); got != "" {
		t.Errorf("of the joined file of two processes:\n%s", got)
	}
	at := func(ms int64) time.Time { return time.UnixMicro(stopsBegin + ms*1000) }
	for _, c := range []struct {
		from, to int64
		want     string
	}{
		{0, 2500, "0-1000: 5 1000 6 4+\n1000-2000: 5 2000 6 4+\n"},
		{500, 2000, "0-500:\n500-1500: 5 2000 6 4+\n"},
		{1000, 1999, ""},
	} {
		testenv.OK(t, Window(t.Context(), path("window.tach"), files[0], at(c.from), at(c.to)))
		if got := stopsIn(t, path("window.tach")); got != c.want {
			t.Errorf("of %d to %d ms:\n%swant\n%s", c.from, c.to, got, c.want)
		}
	}
	testenv.OK(t, Excerpt(t.Context(), path("excerpt.tach"), files, at(1500)))
	if got, want := stopsIn(t, path("excerpt.tach")), "0-1500:\n1500-2000: 5 500 6 4+\n"; got != want {
		t.Errorf("of an excerpt:\n%swant\n%s", got, want)
	}
}
