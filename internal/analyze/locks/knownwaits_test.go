package locks

import (
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/stream"
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
		w := analyzetest.Must(FindWaits(s, WaitOptions{Goroutine: 1}))(t)
		if len(w.Chains) != 1 || w.Chains[0].Name != want {
			t.Errorf("want %q: %+v", want, w.Chains)
		}
	}
}
