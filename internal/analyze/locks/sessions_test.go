package locks

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// Whom a profile shows as the holder of a lock, or of a place in a channel, is who the program's log says it was. Without
// source the lines between Lock and Unlock are a guess. Holds of up to a tick are said to be too short to tell.
func TestHoldersOfSessions(t *testing.T) {
	var text strings.Builder
	for _, name := range strings.Fields("sleeps computes computes-shortly refresher two-of-one-type slow-reader nested leaky-server places places-in-select places-wrapped places-of-goroutines rendezvous") {
		t.Run(name, func(t *testing.T) {
			channels, role := strings.HasPrefix(name, "places"), RoleHolds
			if name == "rendezvous" {
				channels, role = true, RoleOtherSide
			}
			s := analyzetest.OpenSession(t, "../testdata/sessions", name)
			got, most := compareHolders(t, s, Options{Channels: channels, Source: analyzetest.SourceOfSessions})
			fmt.Fprintf(&text, "%s %+v", name, got)
			testenv.FailIf(t, got.right < 19*got.wrong && name != "computes-shortly" || got.right < 5*got.wrong || got.unknown > got.all()/10, "holders %+v", got)
			testenv.Same(t, "role, too short", fmt.Sprint(most.Holder.Role, most.Holder.TooShort), fmt.Sprint(role, strings.HasPrefix(name, "computes")))
			if channels { // are like locks only where the source says so
				text.WriteByte('\n')
				return
			}
			got, _ = compareHolders(t, s, Options{})
			fmt.Fprintf(&text, ", without source %+v\n", got)
			testenv.FailIf(t, got.right < 5*got.wrong, "without source %+v", got)
		})
	}
	testenv.Golden(t, "../testdata/sessions/holders.txt", text.String(), *analyzetest.Update)
}

// holderCounts counts the ticks at which goroutines waited for a lock.
type holderCounts struct{ right, wrong, unknown int }

func (c holderCounts) all() int { return c.right + c.wrong + c.unknown }

// compareHolders compares the holders that a profile shows with the log. It returns the lock with the longest waits.
func compareHolders(t testing.TB, s *analyzetest.Session, o Options) (out holderCounts, most Lock) {
	t.Helper()
	shift := int64(s.File.Header().Start) - s.Truth.Begin
	ticks := ticksOfFile(t, s.File)
	l := newLockSums(analyzetest.SamplesOf(t, stream.Options{Objects: true}, s.File), o)
	l.onCharge = func(c *charge) {
		if o.Channels != isChannel(l.sums[c.object].kind) {
			return
		}
		from, _ := slices.BinarySearch(ticks, c.from+1)
		to, _ := slices.BinarySearch(ticks, c.to+1)
		for _, at := range ticks[from:to] {
			held := false
			for lock, list := range s.Truth.Holds {
				// A wait of one goroutine only may have no number.
				if c.object < 0 || fmt.Sprintf("0x%x", l.objects[c.object].Addr) == lock || l.sums[c.object].kind == tachyon.ObjectSelect {
					held = held || heldAt(list, int64(c.goroutine), int64(at)+shift)
				}
			}
			switch {
			case c.how == unknown:
				out.unknown++
			case held:
				out.right++
			default:
				out.wrong++
			}
		}
	}
	testenv.OK(t, cmp.Or(l.read(), l.holders()))
	for _, x := range l.result().Locks {
		h := x.Holder
		testenv.FailIf(t, h != nil && h.Seen+h.Inferred+h.Unknown != x.Waited, "%s waited %v: %+v", x.Name, x.Waited, h)
		if x.Waited > most.Waited && x.IsLock() != o.Channels && x.Holder != nil {
			most = x
		}
	}
	testenv.StopIf(t, most.Holder == nil, "no goroutine waited for a lock with a holder")
	return out, most
}

// ticksOfFile returns the times of the ticks, in µs since the start: those at which several goroutines
// have samples.
func ticksOfFile(t testing.TB, f *reader.Reader) (list []uint64) {
	count := map[uint64]int{}
	for s := range testenv.All(t, f.Samples()) {
		count[s.Time-f.Header().Start]++
	}
	for at, n := range count {
		if n >= 3 {
			list = append(list, at)
		}
	}
	slices.Sort(list)
	return list
}

// heldAt reports whether a goroutine held the lock at a time, or between the holds before and after.
func heldAt(list []analyzetest.Hold, goroutine, at int64) bool {
	const slack = 150 // µs
	for i, h := range list {
		if h[0] != goroutine {
			continue
		}
		from, to := h[1], h[2]
		if i > 0 {
			from = min(from, list[i-1][2])
		}
		if i+1 < len(list) {
			to = max(to, min(list[i+1][1], to+5000))
		}
		if from-slack <= at && at <= to+slack {
			return true
		}
	}
	return false
}

// A goroutine waits for three others, of which one takes longer because of a lock.
func TestWaitsOfSession(t *testing.T) {
	s := analyzetest.OpenSession(t, "../testdata/sessions", "fan-out")
	w := testenv.Must(FindWaits(s.Samples(t), WaitOptions{Func: regexp.MustCompile(`\.fanOut$`), Options: Options{Source: analyzetest.SourceOfSessions}}))
	i := slices.IndexFunc(w.Chains, func(n WaitNode) bool { return n.State == "sync.WaitGroup.Wait" })
	testenv.StopIf(t, i < 0, "no wait for a group: %+v", w)
	n := w.Chains[i]
	var known, behind, held time.Duration // behind: the last child waited for the lock
	for _, child := range n.Next {
		known += child.Time
		if child.State == "sync.Mutex.Lock" {
			behind += child.Time
			for _, h := range child.Next {
				if h.State == "sleep" && h.Func == "main.(*store).load" {
					held += h.Time
				}
			}
		}
	}
	if !analyzetest.Near(n.Time, analyze.Micros(uint64(s.Truth.Waited)), 0.01, n.Time) || 10*known < 9*n.Time || 2*behind < n.Time || 10*held < 9*behind {
		t.Errorf("waited %v, by its own clock %d µs; known %v, behind the lock %v, held by the other goroutine %v", n.Time, s.Truth.Waited, known, behind, held)
	}
}

// causeSums is what the causes of a kind come to, in µs: right, wrong and unknown.
type causeSums [3]uint64

func (c causeSums) String() string {
	share := 100.0
	if given := c[0] + c[1]; given > 0 {
		share = 100 * float64(c[0]) / float64(given)
	}
	return fmt.Sprintf("%5.1f %% of %4d ms right, %4d ms unknown", share, (c[0]+c[1])/1000, c[2]/1000)
}

// labelSpan is the labels of a goroutine of testdata/peers/causes until a time.
type labelSpan struct {
	end       uint64
	until, is string
}

// judgeCauses follows the waits in a profile of testdata/peers/causes and compares their causes with the labels. The sums are by role and
// label.
func judgeCauses(t *testing.T, f *reader.Reader) map[string]causeSums {
	t.Helper()
	options := stream.Options{Labels: true, Objects: true}
	spans := map[uint64][]labelSpan{}
	s := analyzetest.SamplesOf(t, options, f)
	for x := range testenv.All(t, s.All()) {
		span := labelSpan{end: x.At}
		if x.Labels != nil {
			span.until, _ = x.Labels.Get("until")
			span.is, _ = x.Labels.Get("is")
		}
		list := spans[x.Goroutine]
		if n := len(list); n > 0 && list[n-1].until == span.until && list[n-1].is == span.is {
			list[n-1].end = x.At
			continue
		}
		spans[x.Goroutine] = append(list, span)
	}
	at := func(g, time uint64) labelSpan {
		list := spans[g]
		i, _ := slices.BinarySearchFunc(list, time, func(s labelSpan, time uint64) int { return cmp.Compare(s.end, time) })
		if i == len(list) {
			return labelSpan{}
		}
		return list[i]
	}
	sums := map[string]causeSums{}
	w := newWaitChains(analyzetest.SamplesOf(t, options, f), WaitOptions{Func: regexp.MustCompile(`^main\.`), Options: Options{Source: readCauses}})
	w.onCause = func(c *cause) {
		until := at(c.waiter, c.at).until
		if c.waiter == 0 || until == "" {
			return
		}
		kind, _, _ := strings.Cut(until, "-")
		key := cmp.Or(c.role, c.name, "unknown") + " / " + kind
		sum, of := sums[key], 2
		name, named := strings.CutPrefix(until, "name:")
		switch {
		case named && c.name != "" && !strings.HasPrefix(c.name, name), !named && c.by != 0 && at(c.by, c.at).is != until:
			of = 1
		case named && c.name != "", !named && c.by != 0:
			of = 0
		}
		sum[of] += c.time
		sums[key] = sum
	}
	testenv.Must(w.find())
	return sums
}

// readCauses reads the text of testdata/peers/causes, whose names in recordings are those of -trimpath.
func readCauses(name string) *source.File {
	if i := strings.LastIndex(name, "/testdata/"); i >= 0 {
		name = name[i+len("/testdata/"):]
	}
	text, err := os.ReadFile("../../../bench/e2e/testdata/" + name)
	if err != nil {
		return nil
	}
	return &source.File{Text: text}
}

// addCauses adds sums by role and label to those by role.
func addCauses(all, sums map[string]causeSums) {
	for key, sum := range sums {
		role, _, _ := strings.Cut(key, " / ")
		of := all[role]
		for i, time := range sum {
			of[i] += time
		}
		all[role] = of
	}
}

// causesPlanted are the kinds of testdata/peers/causes, and answers that each has at least.
var causesPlanted = map[string][]string{
	"consumers": {"other side / ranged", "other side / called", "other side / selected", "other side / jobs"},
	"answers":   {"other side / sender"},
	"children":  {"child / child", "child / closerchild", "last child / group"},
	"places":    {"holds / place", "holds / group"},
	"sqlpool":   {"holds / small"},
	"transport": {"holds / conn", "a response of an HTTP server / name:a response of an HTTP server"},
	"handlers":  {"holds / small"},
	"pgxpool":   {"holds / small", "a response of PostgreSQL / name:a response of PostgreSQL"},
	"redis":     {"holds / small", "a response of Redis / name:a response of Redis"},
	"workers":   {"holds / ants", "holds / conc"},
	"clients":   {"a response of a gRPC server / name:a response of a gRPC server", "a message of a gRPC server / name:a message of a gRPC server", "a response of NATS / name:a response of NATS", "a message of NATS / name:a message of NATS"},
}

// TestCauses looks at recordings of a program on database/sql, net/http, errgroup and other libraries whose labels say what each goroutine waits for. A
// kind of answer is right in at least 95 % of the time that has it, and all small pools and slow consumers are found. To record anew,
// run in bench/e2e/testdata/peers, for each KIND:
//
//	GOWORK=off go run -trimpath ./causes KIND 1500ms ../../../../internal/analyze/testdata/causes/KIND.tach
func TestCauses(t *testing.T) {
	all := map[string]causeSums{}
	for kind, planted := range causesPlanted {
		f := testenv.Must(reader.Open("../testdata/causes/" + kind + ".tach"))
		sums := judgeCauses(t, f)
		for _, key := range planted {
			testenv.FailIf(t, sums[key][0] < 100_000, "%s: %s: %v", kind, key, sums[key])
		}
		addCauses(all, sums)
		testenv.OK(t, f.Close())
	}
	for role, sum := range all {
		testenv.FailIf(t, sum[1]*20 > sum[0]+sum[1], "%s: %v", role, sum)
	}
}

// What a library waits for has a name, with the address if that is known, also if another goroutine reads from the only one that the library has,
// or from the connection.
// A new connection is none of a pool, and only what looks again and again sleeps for what it waits for.
func TestKnownWaits(t *testing.T) {
	const address = 7
	own, conn, query := analyzetest.Place("main.ask", 9), analyzetest.Place("database/sql.(*DB).conn", 1300), analyzetest.Place("database/sql.(*DB).query", 1700)
	read := func(number int32) []tachyon.Frame {
		return append(analyzetest.WaitFor("IO wait", number), analyzetest.Place("internal/poll.(*FD).Read", 1), analyzetest.Place("net.(*conn).Read", 1))
	}
	peek := analyzetest.Place("github.com/jackc/pgx/v5/pgconn.(*PgConn).peekMessage", 1)
	for want, stack := range map[string][]tachyon.Frame{
		"a free connection of sql.DB":                 append(analyzetest.WaitFor("select", 0), conn, query, own),
		"a response of PostgreSQL (10.2.3.4:543)":     append(read(address), peek, query, own),
		"a response of PostgreSQL":                    append(read(0), peek, query, own),
		"10.2.3.4:543":                                append(read(address), conn, query, own), // a driver that connects
		"the lock of a SQLite database":               append(analyzetest.WaitFor("sleep", 0), analyzetest.Place("time.Sleep", 1), analyzetest.Place("modernc.org/sqlite.busyHandler", 74), query, own),
		"a response of an HTTP server":                append(analyzetest.WaitFor("select", 0), analyzetest.Place("net/http.(*persistConn).roundTrip", 1), own),
		"a response of an HTTP server (10.2.3.4:543)": append(analyzetest.WaitFor("select", 9), analyzetest.Place("net/http.(*persistConn).roundTrip", 1), own),
		"a response of a gRPC server (10.2.3.5:543)":  append(analyzetest.WaitFor("select", 0), tachyon.Frame{File: "/root/go/pkg/mod/google.golang.org/grpc@v1.85.0/x.go", Func: "google.golang.org/grpc/internal/transport.(*ClientStream).waitOnHeader"}, own),
		"a connection of http.Transport":              append(analyzetest.WaitFor("select", 0), analyzetest.Place("net/http.(*Transport).getConn", 1), own),
		"a response of NATS":                          append(analyzetest.WaitFor("select", 0), tachyon.Frame{File: "/root/go/pkg/mod/github.com/nats-io/nats.go@v1.55.0/nats.go", Func: "github.com/nats-io/nats.go.(*Conn).newRequest"}, own),
		"":                                            append(analyzetest.WaitFor("sleep", 0), analyzetest.Place("time.Sleep", 1), analyzetest.Place("example.org/driver.connect", 74), conn, query, own),
	} {
		r := analyzetest.Record(t)
		r.Every(1000, 1000, 10_000, 1, 0, stack...)
		r.Objects = []tachyon.Object{{Number: address, Kind: tachyon.ObjectConnection, Name: "tcp 10.2.3.4:543"}, {Number: 8, Kind: tachyon.ObjectConnection, Name: "tcp 10.2.3.5:543"}}
		reads, writes, nats, grpc := "net/http.(*persistConn).readLoop", "net/http.(*persistConn).writeLoop", "github.com/nats-io/nats.go.(*Conn).readLoop", "google.golang.org/grpc/internal/transport.(*http2Client).reader"
		r.Add(11, 500, 0, append(analyzetest.WaitFor("select", 0), analyzetest.Place(writes, 1))...)
		for id, in := range []string{reads, writes, reads, grpc, nats, nats} { // two of each parent
			waits := [][]tachyon.Frame{read(address), analyzetest.WaitFor("select", 9), read(8), read(8), read(address), read(8)}[id]
			r.Goroutine(tachyon.Goroutine{ID: uint64(id + 10), Parent: uint64(5 + id/2), CreatedBy: "net/http.(*Transport).dialConn"})
			r.Add(uint64(id+10), 1000, 0, append(waits, analyzetest.Place(in, 1))...)
		}
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
			f := testenv.Closes(t, testenv.Must(reader.Open("../findings/testdata/causes/"+c.program+".tach")))
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
	text := func(times map[int]int) string { return (&inUse{of: a, times: times}).text(k) }
	testenv.Same(t, "mostly two, not always, mostly none", text(map[int]int{2: 9, 1: 1})+text(map[int]int{2: 7, 1: 3})+text(map[int]int{0: 9, 1: 1}), " (2 of 2 in use)")
	w := waitChains{inUse: map[*KnownWait]*inUse{}}
	w.noteInUse(k, a, 2)
	w.noteInUse(k, b, 2)
	testenv.Same(t, "two pools", w.inUse[k].text(k), "")
}
