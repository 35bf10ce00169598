//go:build (amd64 || arm64) && peers

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

// farEnds are the addresses of servers outside of the program.
type farEnds struct{ postgres, redis string }

// check compares the far end of each [IO wait] with the library that waits. The libraries of the clients say which server it must be: PostgreSQL
// and Redis have addresses of their own, the other servers are in the program, and so are their listeners. No wait may have a wrong name, and
// 98 % of the time must have one.
func (f *farEnds) check(t *testing.T, path string) {
	t.Helper()
	file := testenv.Must(reader.Open(path))
	defer file.Close()
	src := testenv.Must(stream.New([]stream.File{{Stream: file}}, stream.Options{Objects: true}))
	peers := testenv.Must(src.Peers())
	accepts := map[string]bool{} // addresses of the program's listeners
	var all, named time.Duration
	type wait struct {
		name  string
		stack uint32
	}
	sums := map[wait]time.Duration{}
	for s := range testenv.All(t, src.Samples()) {
		if src.State(s.Status, s.Stack) == "IO wait" {
			leaf := src.Frames()[src.Stacks()[s.Stack].Frame]
			sums[wait{peers[stream.ObjectOf(&leaf)], s.Stack}] += s.Wall
		}
	}
	stackOf := func(n uint32) string {
		var names []string
		for _, n := range src.AppendStack(nil, n) {
			names = append(names, src.Frames()[n].Func)
		}
		return strings.Join(names, " < ")
	}
	for w := range sums {
		if at, ok := strings.CutPrefix(w.name, "tcp "); ok && strings.Contains(stackOf(w.stack), "(*TCPListener).Accept") {
			accepts[at] = true
		}
	}
	for w, wall := range sums {
		stack := stackOf(w.stack)
		if strings.Contains(stack, ".dial") || strings.Contains(stack, "connect") && strings.Contains(stack, "(*netFD).connect") {
			continue // a connection that is being made has no far end yet
		}
		all += wall
		if w.name == "" {
			t.Logf("%v without name: %s", wall, stack)
			continue
		}
		named += wall
		at, _ := strings.CutPrefix(w.name, "tcp ")
		port, _, accepted := strings.Cut(at, " from 127.0.0.1")
		right := false
		switch {
		case strings.Contains(stack, "jackc/pgx"):
			right = w.name == f.postgres
		case strings.Contains(stack, "go-redis/"):
			right = at == f.redis
		case strings.Contains(stack, ").Accept"):
			right = accepts[at]
		case strings.Contains(stack, "net/http.(*conn)"), strings.Contains(stack, "net/http.(*connReader)"), strings.Contains(stack, "http2serverConn"), strings.Contains(stack, "http2.(*serverConn)"), strings.Contains(stack, "nats-server"):
			right = accepted && accepts["127.0.0.1"+port]
		default: // a client of a server in the program
			right = !accepted && accepts[at]
		}
		if !right {
			t.Errorf("%v for %q: %s", wall, w.name, stack)
		}
	}
	t.Logf("%.2f %% of %v of [IO wait] have a name; listeners %v", 100*float64(named)/float64(all), all, accepts)
	if float64(named) < 0.98*float64(all) {
		t.Errorf("only %v of %v of [IO wait] have a name", named, all)
	}
}
