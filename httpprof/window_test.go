package httpprof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// An answer is what a request got.
type answer struct {
	code       int
	body       []byte
	begin, end time.Time
	retry      string
}

// ask asks the handler.
func ask(ctx context.Context, query string) answer {
	return askOf(ctx, Handler(profiler.Budget(50), profiler.MaxPause(time.Minute)), query)
}

func askOf(ctx context.Context, h http.Handler, query string) (a answer) {
	w := httptest.NewRecorder()
	a.begin = time.Now()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?"+query, nil).WithContext(ctx))
	a.end = time.Now()
	a.code, a.body, a.retry = w.Code, w.Body.Bytes(), w.Header().Get("Retry-After")
	return a
}

// brief takes profiles as the handler does, but in place of seconds, of as many times briefTime.
var brief = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	q := testenv.Must(parseQuery(r))
	q.seconds = q.seconds / time.Second * briefTime
	if err := q.profileTo(r.Context(), w, []profiler.Option{profiler.Budget(50), profiler.MaxPause(time.Minute)}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
})

const briefTime = 400 * time.Millisecond

// answers checks the status of an answer, and that its text has want.
func answers(t *testing.T, a answer, code int, want string) {
	t.Helper()
	testenv.Same(t, "status of "+string(a.body), a.code, code)
	testenv.Has(t, "the answer", string(a.body), want)
}

// checkWindow checks that an answer is a Tachyon file of one window, within the time of the request. It returns how long a
// goroutine of load waited, which it did all the time: on a busy machine the session may have seen it once or never.
func checkWindow(t *testing.T, a answer, want time.Duration) (waited time.Duration) {
	t.Helper()
	if a.code != http.StatusOK {
		t.Errorf("status %d: %s", a.code, a.body)
		return 0
	}
	r := testenv.Must(reader.New(bytes.NewReader(a.body)))
	m := testenv.Must(r.Metadata())
	if m.Session == nil || m.Session.Duration < want || m.Session.Start.Before(a.begin.Add(-time.Millisecond)) || m.Session.Start.Add(m.Session.Duration).After(a.end.Add(time.Millisecond)) {
		t.Errorf("between %v and %v the session is %+v, want %v", a.begin, a.end, m.Session, want)
		return 0
	}
	from, to := uint64(m.Session.Start.UnixMicro()), uint64(m.Session.Start.Add(m.Session.Duration).UnixMicro())+1
	src := samples(r)
	for s := range testenv.All(t, src.Samples()) {
		if s.Time <= from || s.Time > to {
			t.Errorf("a sample %d µs after the start of %v", s.Time-from, m.Session.Duration)
			return 0
		}
		for _, id := range src.AppendStack(nil, s.Stack) {
			if strings.HasSuffix(src.Frames()[id].Func, ".handlerTestWait") {
				waited += s.Wall
			}
		}
	}
	testenv.FailIf(t, waited > m.Session.Duration+5*time.Millisecond, "a goroutine that waited for all of %v has %v", m.Session.Duration, waited)
	return waited
}

// temporary is the folder of temporary files of a test.
func temporary(t *testing.T) string {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	return temp
}

// none checks that nothing of the handler is left.
func none(t *testing.T, temp string) {
	t.Helper()
	testenv.Empty(t, temp)
	testenv.Same(t, "recordings and requests", fmt.Sprint(len(recordings), windows.n.Load(), lasts.n.Load()), "0 0 0")
}

// TestMany: each of many requests at different times gets its own time, with one session for all. Some are given up. By day it is one that runs;
// TestHandler, TestBeginsAtEnd and TestSeveralRecordings have the others.
func TestMany(t *testing.T) {
	for _, running := range []bool{true, false}[:testenv.Times(1, 2)] {
		t.Run(fmt.Sprint(running), func(t *testing.T) {
			var own *profiler.Session
			if running {
				own, _ = open(t, profiler.RotateEvery(time.Second), profiler.KeepFiles(100))
			} else {
				load(t)
			}
			temp := temporary(t)
			var all sync.WaitGroup
			list := make([]answer, 30)
			for i := range list {
				ctx := t.Context()
				if i%3 == 1 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, time.Duration(i)*briefTime/50)
					defer stop()
				}
				if i%2 == 0 {
					time.Sleep(15 * time.Millisecond)
				}
				all.Go(func() { list[i] = askOf(ctx, brief, "seconds=1&format=tach") })
			}
			all.Wait()
			most := time.Duration(0)
			for i, a := range list {
				if i%3 != 1 || len(a.body) > 0 {
					most = max(most, checkWindow(t, a, briefTime))
				}
			}
			testenv.FailIf(t, most == 0, "no window has the goroutine that waited all the time")
			none(t, temp)
			s, err := profiler.Open(profiler.Output(filepath.Join(t.TempDir(), "x.tach")))
			testenv.FailIf(t, (err != nil) != running, "after the last request: %v", err)
			testenv.OK(t, s.Stop())
			if running {
				testenv.Await(func() bool { return len(own.Files()) > 0 })
				await(own.Path())
				past(t, own)
			}
		})
	}
}

// TestBeginsAtEnd: a request that begins while the last one ends the session begins another one.
func TestBeginsAtEnd(t *testing.T) {
	temp := temporary(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10 {
				v := testenv.Must(join(t.Context(), []profiler.Option{profiler.Source(profiler.Portable)}))
				testenv.Must(v, v.leave())
			}
		})
	}
	all.Wait()
	none(t, temp)
}

// TestSeveralRecordings: a large recording is not joined. If there are many, the newest one is.
func TestSeveralRecordings(t *testing.T) {
	temp := temporary(t)
	var list []*window
	for i := range mostRecordings + 3 {
		v := testenv.Must(join(t.Context(), nil))
		testenv.Same(t, fmt.Sprint("request ", i), recordings[min(i, mostRecordings-1)], v.recording)
		v.begun = time.Now().Add(-oldRecording)
		list = append(list, v)
	}
	list[len(list)-1].Warning = errors.New("it has no journal") // nobody can join it
	testenv.Is(t, "a request more", testenv.Err(join(t.Context(), nil)), errBusy)
	for _, v := range list {
		testenv.OK(t, v.leave())
	}
	none(t, temp)
}

// TestSettles: a window that others overlap is read when the session has written all of it.
func TestSettles(t *testing.T) {
	open(t)
	a := testenv.Must(join(t.Context(), nil))
	b := testenv.Must(join(t.Context(), nil))
	asked, reached, settled := make(chan struct{}), make(chan struct{}), make(chan error)
	a.Reach = func() <-chan struct{} { close(asked); return reached }
	go func() { settled <- a.settle(t.Context()) }()
	select {
	case err := <-settled:
		t.Fatalf("it does not wait: %v", err)
	case <-asked:
	}
	close(reached)
	testenv.OK(t, errors.Join(<-settled, a.leave(), b.settle(t.Context())))
	testenv.Same(t, "the whole file is of the last request", b.sole, false)
	testenv.OK(t, b.leave())
}

// TestCutShort: a window that is cut short is an error at once, which says why.
func TestCutShort(t *testing.T) {
	for name, c := range map[string]struct {
		cut  func(t *testing.T, s *profiler.Session, temp string)
		code int
		want string
	}{
		"stopped": {func(t *testing.T, s *profiler.Session, _ string) { testenv.OK(t, s.Stop()) }, http.StatusServiceUnavailable, "the session has ended after "},
		"not written": {func(t *testing.T, _ *profiler.Session, temp string) {
			list, _ := filepath.Glob(temp + "/*/*.journal")
			testenv.OK(t, os.Truncate(list[0], 0))
		}, http.StatusInternalServerError, "the profile could not be written after "},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := open(t)
			temp := temporary(t)
			got := make(chan answer, 2)
			for range cap(got) {
				go func() { got <- ask(t.Context(), "seconds=3000") }()
			}
			testenv.Await(func() bool {
				joining <- struct{}{}
				defer func() { <-joining }()
				return len(recordings) == 1 && recordings[0].users == 2
			})
			c.cut(t, s, temp)
			for range cap(got) {
				answers(t, <-got, c.code, c.want)
			}
			none(t, temp)
		})
	}
}

// TestBusy: one profile is converted at a time, few requests wait, the others are refused. Who gives up does not wait.
func TestBusy(t *testing.T) {
	open(t)
	temp := temporary(t)
	testenv.OK(t, converting.do(t.Context(), func() error {
		testenv.Same(t, "profiles that are converted", len(converting), 1)
		return nil
	}))
	converting <- struct{}{}
	ctx, giveUp := context.WithCancel(t.Context())
	gone := make(chan answer)
	go func() { gone <- ask(ctx, "last=1ms&format=firefox") }()
	testenv.Await(func() bool { return lasts.n.Load() == 1 })
	giveUp()
	testenv.Same(t, "a request that was given up", string((<-gone).body), "")
	var served, refused atomic.Int64
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			switch a := ask(t.Context(), "last=1ms&format=firefox"); {
			case a.code == http.StatusOK:
				served.Add(1)
			case a.code == http.StatusServiceUnavailable && a.retry != "" && bytes.Contains(a.body, []byte("too many requests")):
				refused.Add(1)
			default:
				t.Errorf("status %d: %s", a.code, a.body)
			}
		})
	}
	testenv.Await(func() bool { return refused.Load() == 40-mostLasts })
	<-converting
	all.Wait()
	testenv.Same(t, "served", served.Load(), mostLasts)
	none(t, temp)
	for range mostWindows {
		windows.enter(mostWindows)
	}
	a := ask(t.Context(), "seconds=1")
	testenv.FailIf(t, a.code != http.StatusServiceUnavailable || a.retry == "", "a request beside %d others: status %d: %s", mostWindows, a.code, a.body)
	windows.n.Store(0)
}

// TestForeign: browsers get nothing for pages of other servers. Other programs may use any name of the server.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		name, host string
		header     []string
		refused    bool
	}{
		{"curl", "app.example.com:6060", nil, false},
		{"go tool pprof", "app", []string{"User-Agent", "Go-http-client/1.1", "Accept-Encoding", "gzip"}, false},
		{"Prometheus", "app.example.com", []string{"User-Agent", "Prometheus/3.0", "Accept", "*/*"}, false},
		{"a user's browser", "localhost:6060", []string{"User-Agent", "Mozilla/5.0", "Sec-Fetch-Site", "none"}, false},
		{"a user's browser", "10.1.2.3:6060", []string{"User-Agent", "Mozilla/5.0", "Accept-Language", "en"}, false},
		{"a page of this server", "[::1]:6060", []string{"Origin", "http://[::1]:6060", "Sec-Fetch-Site", "same-origin"}, false},
		{"a user's browser, a name of Hosts", "debug.example.com:6060", []string{"User-Agent", "Mozilla/5.0", "Sec-Fetch-Site", "none"}, false},
		{"a name that was made to point here", "evil.example:6060", []string{"User-Agent", "Mozilla/5.0"}, true},
		{"such a name, other headers", "evil.example:6060", []string{"User-Agent", "curl/8", "Accept-Language", "x"}, true},
		{"such a name, with https", "evil.example", []string{"Sec-Fetch-Site", "same-origin"}, true},
		{"another page's script", "localhost:6060", []string{"Origin", "http://evil.example"}, true},
		{"another page's picture", "localhost:6060", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, true},
		{"another page's link", "localhost:6060", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, true},
	} {
		r, w := httptest.NewRequest(http.MethodGet, "/?seconds=x", nil), httptest.NewRecorder()
		r.Host = c.host
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Set(c.header[i], c.header[i+1])
		}
		Handler(Hosts("other.example"), Hosts("debug.example.com")).ServeHTTP(w, r)
		testenv.Same(t, c.name+", "+c.host, w.Code, map[bool]int{true: http.StatusForbidden, false: http.StatusBadRequest}[c.refused])
	}
}
