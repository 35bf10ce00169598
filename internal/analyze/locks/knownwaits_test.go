package locks

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// What a library waits for has a name, with the address if that is known. A new connection is none of a pool, and only what looks again and
// again sleeps for what it waits for.
func TestKnownWaits(t *testing.T) {
	const address = 7
	own := analyzetest.Place("main.ask", 9)
	conn, query := analyzetest.Place("database/sql.(*DB).conn", 1300), analyzetest.Place("database/sql.(*DB).query", 1700)
	read := func(number int32) []tachyon.Frame {
		return append(analyzetest.WaitFor("IO wait", number), analyzetest.Place("internal/poll.(*FD).Read", 1), analyzetest.Place("net.(*conn).Read", 1))
	}
	peek := analyzetest.Place("github.com/jackc/pgx/v5/pgconn.(*PgConn).peekMessage", 1)
	for want, stack := range map[string][]tachyon.Frame{
		"a free connection of sql.DB":             append(analyzetest.WaitFor("select", 0), conn, query, own),
		"a response of PostgreSQL (10.2.3.4:543)": append(read(address), peek, query, own),
		"a response of PostgreSQL":                append(read(0), peek, query, own),
		"10.2.3.4:543":                            append(read(address), conn, query, own), // a driver that connects
		"the lock of a SQLite database":           append(analyzetest.WaitFor("sleep", 0), analyzetest.Place("time.Sleep", 1), analyzetest.Place("modernc.org/sqlite.busyHandler", 74), query, own),
		"":                                        append(analyzetest.WaitFor("sleep", 0), analyzetest.Place("time.Sleep", 1), analyzetest.Place("example.org/driver.connect", 74), conn, query, own),
	} {
		r := analyzetest.Record(t)
		r.Every(1000, 1000, 10_000, 1, 0, stack...)
		r.Objects = []tachyon.Object{{Number: address, Kind: tachyon.ObjectConnection, Name: "tcp 10.2.3.4:543"}}
		s := analyzetest.SamplesOf(t, stream.Options{Objects: true}, r.Finish(tachyon.Session{Source: "native", Markers: true}))
		w := testenv.Must(FindWaits(s, WaitOptions{Goroutine: 1}))
		testenv.Same(t, "name", w.Chains[0].Name, want)
	}
}

// TestWaitsPage holds the table of docs/waits.md: go test ./internal/analyze -run TestWaitsPage -update.
func TestWaitsPage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| who waits in | waits for |\n|---|---|\n")
	for _, k := range knownWaits {
		fmt.Fprintf(&table, "| `%s` | %s |\n", k.in, k.what)
	}
	testenv.Marked(t, "../../../docs/waits.md", "known", table.String(), *analyzetest.Update)
}

// What is said of how many places of a pool are in use is the limit that the program has set. Where the source text is not there, most of
// those who have a connection are not known, and nothing is said.
func TestInUse(t *testing.T) {
	below := testenv.Must(source.Below([]string{"../../../testdata"}))
	for _, c := range []struct{ program, function, text, none string }{
		{"pool-sql", "shop..checkOut", "a free connection of sql.DB (2 of 2 in use)", "a free connection of sql.DB"},
		{"pool-http", "gateway..forward", "a connection of http.Transport (2 in use)", "a connection of http.Transport"},
		{"errgroup-limit", "migration..page", "a place in errgroup.Group (1 of 1 in use)", "a place in errgroup.Group (1 of 1 in use)"},
		{"semaphore", "thumbnails..make", "t.slots (2 of 2 places taken)", "channel in main.(*thumbnails).make (2 of 2 places taken)"},
	} {
		name := func(read func(string) *source.File) string {
			f := testenv.Must(reader.Open("../findings/testdata/causes/" + c.program + ".tach"))
			defer f.Close()
			w := newWaitChains(analyzetest.SamplesOf(t, stream.Options{Labels: true, Objects: true}, f), WaitOptions{Func: regexp.MustCompile(c.function), Options: Options{Source: read}})
			waits := testenv.Must(w.find())
			for _, n := range waits.Chains {
				if !strings.Contains(n.Name, "response") {
					return n.Name
				}
			}
			return ""
		}
		testenv.Same(t, c.program, name(below.Read), c.text)
		testenv.Same(t, c.program+" without source text", name(func(string) *source.File { return nil }), c.none)
	}
}

// Nothing is said where the number differs from time to time, and of several pools at once.
func TestInUseUnsure(t *testing.T) {
	k := knownIn["database/sql.(*DB).conn"]
	a, b := syntax.Key{Root: "shop", Path: "a"}, syntax.Key{Root: "shop", Path: "b"}
	for want, notes := range map[string][]inUse{
		"":                 {{of: a, times: map[int]int{2: 7, 1: 3}}, {of: a, times: map[int]int{0: 9, 1: 1}}},
		" (2 of 2 in use)": {{of: a, times: map[int]int{2: 9, 1: 1}}},
	} {
		for _, u := range notes {
			testenv.Same(t, u, u.text(k), want)
		}
	}
	w := waitChains{inUse: map[*KnownWait]*inUse{}}
	w.noteInUse(k, a, 2)
	w.noteInUse(k, b, 2)
	testenv.Same(t, "two pools", w.inUse[k].text(k), "")
}
