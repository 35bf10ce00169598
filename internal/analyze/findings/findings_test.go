package findings

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// handler is the outermost frames of a request.
var handler = []tachyon.Frame{analyzetest.Place("net/http.HandlerFunc.ServeHTTP", 1), analyzetest.Place("net/http.(*conn).serve", 1)}

// find returns what is found in a file. read reads the source text; nil: there is none.
func find(path string, read func(string) *source.File) []Finding {
	f := testenv.Must(reader.Open(path))
	defer f.Close()
	return foundBy(f, nil, filepath.Base(path), read)
}

// foundBy returns what is found in the samples of a file that are selected.
func foundBy(f *reader.Reader, selected *stream.Selection, name string, read func(string) *source.File) []Finding {
	o := report.Options{Series: true}
	so := o.Stream()
	so.Unselected, so.Select = true, selected
	src := testenv.Must(stream.New([]stream.File{{Stream: f}}, so))
	return testenv.Must(OfSurvey(testenv.Must(report.NewSurvey(src, o, read)), name, 1<<20))
}

// foundIn returns what is found in a recording of a session of 4 s. It reads no source text.
func foundIn(r *analyzetest.Recording, session tachyon.Session) []Finding {
	session.Source, session.Duration = "native", 4*time.Second
	return foundBy(r.Finish(session), nil, "x.tach", nil)
}

// does adds a sample of a goroutine that waits, or that runs now where it waits otherwise.
func does(r *analyzetest.Recording, id, at uint64, runs bool, waits []tachyon.Frame) {
	if runs {
		waits = waits[1:]
	}
	r.Do(id, at, waits...)
}

// kinds are the kinds and functions of findings.
func kinds(list []Finding) string {
	var text []string
	for _, x := range list {
		text = append(text, strings.TrimSpace(x.Kind+" "+x.Function))
	}
	return strings.Join(text, ", ")
}

// The recordings of the programs in testdata/causes at the root of the repository: what is planted is the first finding, healthy
// ones have none, and each sentence is as in causes.findings. TestMeasureFindings in bench records them anew, which is needed
// after a change of a program: its text is read. What is found in the sessions of package analyze, without text, follows.
func TestCauses(t *testing.T) {
	testenv.Again(t)
	below := testenv.Must(source.Below([]string{"../../../testdata"})) // names in the recordings are those of -trimpath
	var all strings.Builder
	say := func(name string, list []Finding) {
		fmt.Fprintf(&all, "%s\n", name)
		for _, x := range list {
			note := ""
			if x.Note {
				note = ", a note"
			}
			fmt.Fprintf(&all, "\t%s, %.0f %%, %s%s: %s\n", x.Kind, 100*x.Share, x.Sure, note, x.Text)
			for _, e := range x.Evidence {
				fmt.Fprintf(&all, "\t\t%s\n", e)
			}
			testenv.FailIf(t, !slices.Contains(Kinds, x.Kind) || !strings.HasPrefix(x.Command, "gotach ") || !strings.Contains(x.Command, name+".tach") || len(x.Evidence) > 5, "%s: %+v", name, x)
		}
	}
	for _, c := range analyzetest.Causes(t, "../../..") {
		list := find("testdata/causes/"+c.Name+".tach", below.Read)
		say(c.Name, list)
		if c.Healthy() {
			testenv.Same(t, fmt.Sprintf("%s is healthy: %+v", c.Name, list), Problems(list), 0)
		} else if len(list) == 0 || !c.Is(list[0].Kind, list[0].Function) {
			t.Errorf("%s: want %v: %+v", c.Name, c.Kinds, list)
		}
	}
	for name := range strings.FieldsSeq("computes refresher sleeps slow-reader nested leaks leaky-server fan-out rendezvous") {
		say(name, find("../testdata/sessions/"+name+".tach", nil))
	}
	testenv.Golden(t, "testdata/causes.findings", all.String(), *analyzetest.Update)
}

// Eight goroutines that compute in turns are not one that computes, also if what they use adds up to less than a core.
func TestSerial(t *testing.T) {
	const goroutines = 8 // one at a time computes for three of four ticks
	serve := analyzetest.Place("main.serve", 7)
	for name, c := range map[string]struct {
		turn func(tick uint64) uint64 // whose turn it is
		want string
	}{
		"one of eight":   {func(uint64) uint64 { return 2 }, Serial + " main.compute"},
		"eight in turns": {func(tick uint64) uint64 { return tick / 4 % goroutines }, ""},
	} {
		r := analyzetest.Record(t)
		for g := range uint64(goroutines) {
			r.Goroutine(tachyon.Goroutine{ID: g + 1, CreatedBy: "main.main"})
		}
		for tick := range uint64(400) {
			for g := range uint64(goroutines) {
				leaf, status := analyzetest.Wait("chan receive"), tachyon.Moved
				if tick%4 != 0 && c.turn(tick) == g { // for a part of the time, other programs have the core
					leaf, status = analyzetest.Place("main.compute", 9), []tachyon.Status{0, tachyon.HasGIL, analyzetest.Running, analyzetest.Running}[tick%4]
				}
				r.Add(g+1, tick*10_000, status, leaf, serve)
			}
		}
		list := slices.DeleteFunc(foundIn(r, tachyon.Session{GOMAXPROCS: 4}), func(x Finding) bool { return x.Kind != Serial })
		testenv.Same(t, name, kinds(list), c.want)
		testenv.FailIf(t, len(list) > 0 && list[0].Cost < 1900*time.Millisecond, "%s: %+v", name, list)
	}
}

// Who hands out work to goroutines that compute on all cores waits for them, and no limit is too low. If they wait too, it is.
func TestFeeder(t *testing.T) {
	for status, want := range map[tachyon.Status]string{analyzetest.Running: "cpu main.hash", 0: "pool main.feed"} {
		r := analyzetest.Record(t)
		feed := []tachyon.Frame{analyzetest.Wait("chan send"), {File: "/root/go/pkg/mod/golang.org/x/sync@v1.0.0/x.go", Func: "golang.org/x/sync/errgroup.(*Group).Go", Line: 3}, analyzetest.Place("main.feed", 9), analyzetest.Place("main.main", 9)}
		work := []tachyon.Frame{analyzetest.Place("main.hash", 7), analyzetest.Place("main.work", 7)}
		if status == 0 {
			work = slices.Concat(analyzetest.WaitFor("IO wait", 0), work)
		}
		for at := uint64(0); at < 4_000_000; at += 10_000 {
			for id := uint64(2); id < 4; id++ {
				r.Add(id, at, status, work...)
			}
			does(r, 1, at, at%400_000 == 0, feed)
		}
		testenv.Same(t, status, kinds(foundIn(r, tachyon.Session{GOMAXPROCS: 2})), want)
	}
}

// What is said of goroutines that wait to send to a channel: a semaphore is full of those that go on in the same function, a consumer is
// slow if it does not wait too, and neither is if as many as there are cores compute meanwhile.
func TestChannels(t *testing.T) {
	compute := []tachyon.Frame{analyzetest.Place("main.hash", 7)}
	ask := []tachyon.Frame{analyzetest.Wait("IO wait"), analyzetest.Place("main.ask", 8)}
	store, serve := analyzetest.Place("main.store", 30), analyzetest.Place("main.serve", 12)
	for _, c := range []struct {
		name     string
		senders  uint64 // wait to send in main.serve
		capacity int64
		takers   uint64 // do work, in a function that calls it
		work     []tachyon.Frame
		in       tachyon.Frame
		receives uint64 // of ten ticks: takers wait to receive from the channel
		want     string
	}{
		{"slow consumer", 1, 4, 2, ask, store, 0, "channel main.serve"},
		{"fast consumer", 1, 4, 2, ask, store, 2, ""},
		{"as many as cores", 1, 4, 2, compute, store, 0, "cpu main.hash"},
		{"more senders than one", 3, 4, 2, compute, store, 0, "channel main.serve, cpu main.hash"},
		{"semaphore", 1, 2, 2, ask, serve, 0, "pool main.serve"},
		{"semaphore of as many as cores", 1, 2, 2, compute, serve, 0, "cpu main.hash"},
		{"semaphore, many wait", 3, 2, 2, compute, serve, 0, "pool main.serve, cpu main.hash"},
		{"more places than are taken", 1, 3, 2, ask, serve, 0, "channel main.serve"},
		{"fewer places than are taken", 1, 1, 2, ask, serve, 0, "channel main.serve"},
		{"no places", 1, 0, 2, ask, serve, 0, "channel main.serve"},
		{"no places, and a consumer elsewhere", 1, 0, 2, ask, store, 0, "channel main.serve"},
		{"a semaphore in a select", 1, 0, 2, ask, tachyon.Frame{File: "main.go", Func: "main.serve.func1", Line: 7}, 0, "pool main.serve"},
	} {
		r := analyzetest.Record(t)
		send := slices.Concat(analyzetest.WaitFor("chan send", 1), []tachyon.Frame{analyzetest.Place("main.serve", 9)})
		r.Objects = append(r.Objects, tachyon.Object{Number: 1, Kind: tachyon.ObjectChannel, Addr: 0xc000010000, Capacity: c.capacity})
		if c.in.File == "main.go" {
			send = append(analyzetest.WaitFor("select", 1), tachyon.Frame{File: "main.go", Func: "main.serve", Line: 2})
			r.Objects[0].Kind = tachyon.ObjectSelect
		}
		for id := range c.senders + c.takers {
			r.Goroutine(tachyon.Goroutine{ID: id + 1, CreatedBy: "main.main"})
		}
		for at := uint64(0); at < 4_000_000; at += 10_000 {
			for id := range c.senders {
				does(r, id+1, at, at%400_000 == 0, send) // it can send now and then
			}
			for id := range c.takers {
				work := slices.Clone(c.work)
				if at/10_000%10 < c.receives {
					work = analyzetest.WaitFor("chan receive", 1)
				}
				r.Do(c.senders+id+1, at, append(work, c.in)...)
			}
		}
		list := foundBy(r.Finish(tachyon.Session{Source: "native", Duration: 4 * time.Second, GOMAXPROCS: 2}), nil, "x.tach", func(name string) *source.File {
			return &source.File{Text: []byte("package main; func serve() {\nselect {\ncase <-quit:\ncase slots <- struct{}{}:\ngo func() {\ndefer func() { <-slots }()\nask()\n}()\n}\n}\n")}
		})
		testenv.Same(t, c.name, kinds(list), c.want)
	}
}

// A goroutine that makes the next thing before somebody wants it has no slow consumer. Where requests do not wait for it, it may go on
// less than once a second.
func TestAhead(t *testing.T) {
	answer := append([]tachyon.Frame{analyzetest.Wait("chan receive"), analyzetest.Place("main.answer", 5)}, handler...)
	for _, c := range []struct {
		senders, every uint64 // µs
		requests, want bool
	}{
		{1, 4_000_000, false, false},
		{1, 1_400_000, false, true},
		{1, 1_400_000, true, false},
		{1, 400_000, true, true},
		{2, 4_000_000, false, true},
	} {
		r := analyzetest.Record(t)
		r.Objects = append(r.Objects, tachyon.Object{Number: 1, Kind: tachyon.ObjectChannel, Addr: 0xc000010000})
		send := slices.Concat(analyzetest.WaitFor("chan send", 1), []tachyon.Frame{analyzetest.Place("main.ahead", 9)})
		for at := uint64(0); at < 4_000_000; at += 10_000 {
			for id := range c.senders {
				does(r, id+1, at, at%c.every == 0, send)
			}
			if id := 10 + at/100_000; c.requests && at/10_000%10 > 0 {
				r.Goroutine(tachyon.Goroutine{ID: id, CreatedBy: "main.main"})
				r.Add(id, at, 0, answer...)
			}
		}
		list := foundIn(r, tachyon.Session{GOMAXPROCS: 4})
		testenv.Same(t, fmt.Sprintf("%+v", c), slices.ContainsFunc(list, func(x Finding) bool { return x.Kind == Channel }), c.want)
	}
}

// A client that does not read its answers is slow, and one that asks nothing is not. What a handshake writes is part of it.
func TestReader(t *testing.T) {
	for _, c := range []struct{ wait, in, want string }{
		{"waitWrite", "main.flush", "Goroutines wait for client 127.0.0.1 of :4222 to read what they write"},
		{"waitRead", "main.flush", ""},
		{"waitWrite", "crypto/tls.(*Conn).Handshake", "Goroutines make TLS handshakes"},
	} {
		r := analyzetest.Record(t)
		r.Objects = append(r.Objects, tachyon.Object{Number: 1, Kind: tachyon.ObjectConnection, Name: "tcp :4222 from 127.0.0.1"})
		stack := append(analyzetest.WaitFor("IO wait", 1), tachyon.Frame{File: "/usr/lib/go/src/internal/poll/fd_poll_runtime.go", Func: "internal/poll.(*pollDesc)." + c.wait, Line: 2}, analyzetest.Place(c.in, 9), analyzetest.Place("main.serve", 5))
		for at := uint64(0); at < 4_000_000; at += 10_000 {
			r.Add(1, at, 0, stack...)
			r.Add(2+at/10_000%4, at, analyzetest.Running, analyzetest.Place("main.work", 7))
			if at%500_000 == 0 {
				r.Add(1, at+5000, analyzetest.Running, stack[len(stack)-1])
			}
		}
		got := ""
		for _, x := range foundIn(r, tachyon.Session{GOMAXPROCS: 8}) {
			got += x.Text
		}
		testenv.FailIf(t, !strings.HasPrefix(got, c.want) || c.want == "" && got != "", "%s in %s: %q, want %q", c.wait, c.in, got, c.want)
	}
}

// Who waits for an answer that another goroutine reads is told its address if the library has connections to no other.
func TestAnswers(t *testing.T) {
	ask := append([]tachyon.Frame{analyzetest.Wait("select"), analyzetest.Place("net/http.(*persistConn).roundTrip", 1), analyzetest.Place("main.forecast", 41)}, handler...)
	for servers, want := range map[int32]string{1: "Requests wait for a response of an HTTP server (10.0.0.1:80): ", 2: "Requests wait for a response of an HTTP server: "} {
		r := analyzetest.Record(t)
		for n := range servers {
			r.Objects = append(r.Objects, tachyon.Object{Number: n + 1, Kind: tachyon.ObjectConnection, Name: fmt.Sprintf("tcp 10.0.0.%d:80", n+1)})
			r.Every(10_000, 10_000, 4_000_000, uint64(n)+1, 0, append(analyzetest.WaitFor("IO wait", n+1), analyzetest.Place("net/http.(*persistConn).readLoop", 1))...)
		}
		for from := uint64(0); from < 4_000_000; from += 100_000 {
			r.Goroutine(tachyon.Goroutine{ID: 10 + from/100_000, CreatedBy: "main.main"})
			r.Every(10_000, from+10_000, from+90_000, 10+from/100_000, 0, ask...)
		}
		list := foundIn(r, tachyon.Session{GOMAXPROCS: 4})
		testenv.FailIf(t, len(list) != 1 || !strings.HasPrefix(list[0].Text, want), "%d servers: %+v, want %q", servers, list, want)
	}
}

// Connections that wait for a core before their request begins wait for it too.
func TestQueueBeforeRequests(t *testing.T) {
	for waiting, want := range map[uint64]string{9: "cpu main.hash", 7: "compute main.hash", 900: "compute main.hash"} {
		r := analyzetest.Record(t)
		for at := uint64(10_000); at < 4_000_000; at += 10_000 {
			for id := range map[bool]uint64{true: waiting}[waiting < 100 || at <= 60_000] { // so many wake up once, together
				r.Add(1+id, at, tachyon.GILRequested, analyzetest.Wait("runnable"), analyzetest.Place("bufio.(*Reader).Peek", 148), handler[1])
			}
			r.Add(1000+at/100_000, at, analyzetest.Running, append([]tachyon.Frame{analyzetest.Place("main.hash", 5)}, handler...)...)
		}
		testenv.Same(t, fmt.Sprint(waiting, " wait"), kinds(foundIn(r, tachyon.Session{GOMAXPROCS: 2, CPUs: 2})), want)
	}
}

// The last goroutine of a WaitGroup is late if it does something, not if it waits for a core.
func TestStraggler(t *testing.T) {
	for leaf, want := range map[string]bool{"": true, tachyon.FuncRunnable: false} {
		r := analyzetest.Record(t)
		work := []tachyon.Frame{analyzetest.Place("main.work", 9), analyzetest.Place("main.main.func1", 7)}
		for at := uint64(0); at < 4_000_000; at += 10_000 {
			round, begun := at/500_000, at%500_000
			if begun == 0 { // it starts three more goroutines
				r.Add(1, at, analyzetest.Running, analyzetest.Place("main.main", 4))
				for id := range uint64(3) {
					r.Goroutine(tachyon.Goroutine{ID: 10*round + id + 2, Parent: 1, CreatedBy: "main.main", First: at, Last: at + 490_000})
				}
				continue
			}
			r.Add(1, at, 0, append(analyzetest.WaitFor("sync.WaitGroup.Wait", 1), analyzetest.Place("main.main", 5))...)
			for id := uint64(0); id < 2 && begun < 50_000; id++ {
				r.Add(10*round+id+2, at, analyzetest.Running, work...)
			}
			does(r, 10*round+4, at, leaf == "", append([]tachyon.Frame{{Func: leaf}}, work...))
		}
		r.Add(1, 4_000_000, analyzetest.Running, analyzetest.Place("main.main", 6))
		list := foundIn(r, tachyon.Session{GOMAXPROCS: 4, CPUs: 4})
		testenv.Same(t, leaf, slices.ContainsFunc(list, func(x Finding) bool { return x.Kind == Straggler }), want)
	}
}

// A request that asks again and again does so too if the server is the program itself.
func TestChattyItself(t *testing.T) {
	r := analyzetest.Record(t)
	for n, name := range []string{"tcp :8080", "tcp :8080 from 127.0.0.1", "tcp 127.0.0.1:8080"} {
		r.Objects = append(r.Objects, tachyon.Object{Number: int32(n) + 1, Kind: tachyon.ObjectConnection, Name: name})
	}
	serve := []tachyon.Frame{analyzetest.Place("net/http.serverHandler.ServeHTTP", 9), analyzetest.Place("net/http.(*conn).serve", 7)}
	ask := slices.Concat([]tachyon.Frame{analyzetest.Wait("select"), analyzetest.Place("net/http.(*persistConn).roundTrip", 1), analyzetest.Place("main.name", 41)}, serve)
	at := uint64(0)
	for n := range uint64(66) {
		r.Goroutine(tachyon.Goroutine{ID: 100 + n, Parent: 7, CreatedBy: analyze.BackgroundRead, First: at + 10_000, Last: at + 50_000, FirstWeight: 10_000})
		for range 5 {
			at += 10_000
			r.Add(7, at, tachyon.Moved, ask...)
			r.Add(8, at, 0, append(analyzetest.WaitFor("IO wait", 3), analyzetest.Place("net/http.(*persistConn).readLoop", 1))...)
		}
		at += 10_000
		r.Add(7, at, 0, analyzetest.Wait("IO wait"), analyzetest.Place("bufio.(*Reader).Peek", 148), serve[1])
	}
	testenv.Same(t, "findings", kinds(foundIn(r, tachyon.Session{Markers: true, GOMAXPROCS: 2})), Chatty+" main.name")
}

// Of a part of a file nobody knows what the quota took in it: the whole's is said, and that it is the whole's.
func TestQuotaOfPart(t *testing.T) {
	f := testenv.Closes(t, testenv.Must(reader.Open("testdata/causes/cpu-quota.tach")))
	list := foundBy(f, &stream.Selection{Since: testenv.Must(stream.ParseMoment("1s"))}, "x.tach", nil)
	testenv.FailIf(t, len(list) == 0 || list[0].Kind != Quota || list[0].Sure != Inferred || !strings.Contains(list[0].Text, "That is of the whole recording"), "%+v", list)
}

// Requests that wait at two places while another goroutine waits for the disk have one finding.
func TestSyncedForTwo(t *testing.T) {
	r := analyzetest.Record(t)
	for n, at := range []tachyon.Frame{analyzetest.Place("main.put", 5), analyzetest.Place("main.put", 5), analyzetest.Place("main.remove", 6)} {
		for from := uint64(0); from < 4_000_000; from += 200_000 {
			id := uint64(n)*100 + from/200_000 + 1
			r.Goroutine(tachyon.Goroutine{ID: id, CreatedBy: "main.main"})
			r.Every(10_000, from+10_000, from+150_000, id, 0, append([]tachyon.Frame{analyzetest.Wait("select"), at}, handler...)...)
		}
	}
	r.Every(10_000, 10_000, 4_000_000, 500, 0, analyzetest.Wait("syscall"), analyzetest.Place("os.(*File).Sync", 1), analyzetest.Place("main.flush", 9), analyzetest.Place("main.work", 7))
	list := foundIn(r, tachyon.Session{GOMAXPROCS: 4})
	testenv.Same(t, "findings", kinds(list), Fsync+" main.put")
	testenv.FailIf(t, !slices.ContainsFunc(list[0].Evidence, func(e string) bool { return strings.Contains(e, "main.remove") }), "%+v", list)
}
