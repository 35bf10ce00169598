//go:build (amd64 || arm64) && peers

package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/servers"
)

// TestPeerIdle runs testdata/peers and does with it what TestIdleRecordings does with its recordings. It takes
// only the kinds of the standard library, since the others take minutes to build. The step night takes all,
// with PostgreSQL and Redis from Debian and a NATS server in the program, and with -update makes the recordings.
// Under load the far ends of waits are right too.
func TestPeerIdle(t *testing.T) {
	env, tags, kinds := os.Environ(), "std", []string{"http1", "http2"}
	f := &farEnds{}
	if testenv.Times(0, 1) == 1 {
		tags, kinds = "", append(kinds, "xhttp2", "grpc", "sql", "nats", "redis")
		f.redis = servers.Redis(t)
		dsn := servers.Postgres(t)
		f.postgres = "unix " + testenv.Must(url.Parse(dsn)).Query().Get("host") + "/.s.PGSQL.5432"
		env = append(env, "PEERS_POSTGRES="+dsn, "PEERS_REDIS="+f.redis)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "peers")
	build := exec.Command("go", "build", "-tags", tags, "-o", bin, ".")
	build.Dir, build.Env = "testdata/peers", append(os.Environ(), "GOWORK=off") // a module that is not in the workspace
	load := "2s"
	if *update {
		load = "500ms" // recordings must be small
		build.Args = slices.Insert(build.Args, 2, "-trimpath")
	}
	testenv.Run(t, build)
	for _, kind := range kinds {
		for _, name := range []string{kind + "-none", kind + "-load"} {
			t.Run(name, func(t *testing.T) {
				profile, log := filepath.Join(dir, name+".tach"), filepath.Join(dir, name+".log")
				how := load
				if name == kind+"-none" {
					how = "none"
				}
				run := exec.Command(bin, kind, how, profile, log)
				run.Env = env
				testenv.Run(t, run)
				checkIdle(t, profile, log, 0.05)
				if how != "none" && kind != "xhttp2" && kind != "grpc" {
					f.check(t, profile)
				}
				if *update && tags == "" {
					keepRecording(t, profile, log, "testdata/idle")
				}
			})
		}
	}
}

// keepRecording copies a recording and its log, packed, into a folder.
func keepRecording(t *testing.T, profile, log, dir string) {
	t.Helper()
	for _, path := range []string{profile, log} {
		b := testenv.Must(os.ReadFile(path))
		if path == log {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, err := w.Write(b)
			testenv.OK(t, errors.Join(err, w.Close()))
			b, path = packed.Bytes(), path+".gz"
		}
		testenv.OK(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), b, 0o644))
	}
}

// farEnds are the addresses of servers outside of the program.
type farEnds struct{ postgres, redis string }

// check compares the far end of each [IO wait] with the library that waits. The libraries of the clients say which server it must be: PostgreSQL
// and Redis have addresses of their own, the other servers are in the program, and so are their listeners. No wait may have a wrong name, and
// 98 % of the time must have one.
func (f *farEnds) check(t *testing.T, path string) {
	t.Helper()
	file := testenv.Closes(t, testenv.Must(reader.Open(path)))
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
		testenv.FailIf(t, !right, "%v for %q: %s", wall, w.name, stack)
	}
	t.Logf("%.2f %% of %v of [IO wait] have a name; listeners %v", 100*float64(named)/float64(all), all, accepts)
	testenv.FailIf(t, float64(named) < 0.98*float64(all), "only %v of %v of [IO wait] have a name", named, all)
}

// The kernel may put a program at any address. The names of its variables are right all the same.
func TestPeerObjectNames(t *testing.T) {
	objectNames(t, buildProgram(t, "objects", "-buildmode=pie"), false, "")
}
