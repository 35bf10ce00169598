package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pprof "github.com/google/pprof/profile"
	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"

	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/writer"
)

// All finished files and those of killed programs are sent, each once, and files that a program writes are not.
func TestPush(t *testing.T) {
	dir, r, o := received(t, 3, 2)
	r.serve(t, &o)
	killed, live := filepath.Join(dir, "killed.tach"), filepath.Join(dir, "live.tach")
	process{pid: 7, program: "gone"}.file(t, killed, 1, false)
	want := profiled(t, dir)
	w := testenv.Closes(t, testenv.Must(writer.Create(live, writer.Options{Start: startMicros, Interval: 1000})))
	for _, name := range []string{"empty.tach", ".hidden.tach", "notes.txt"} {
		must(os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{killed, killed + ".journal", live, live + ".journal"} {
		must(os.Chtimes(name, long, long))
	}
	for round := range 3 {
		must(push(t, o))
		r.check(t, want, 0)
		testenv.SameList(t, fmt.Sprint("requests and files sent in round ", round), []int{r.requests, int(o.Metrics.Files("sent"))}, []int{7, 7})
		switch round {
		case 0: // the same file under another name, and with another time
			must(os.Rename(filepath.Join(dir, "p0", "app.1.tach"), filepath.Join(dir, "moved.tach")))
			must(os.Chtimes(filepath.Join(dir, "p1", "app.1.tach"), long, long))
		case 1:
			testenv.Must(recovery.Finish(killed))
		}
	}
	must(errors.Join(w.Close(), push(t, o)))
	testenv.Same(t, "files sent after the live one was finished", o.Metrics.Files("sent"), 8)
}

// A Pusher that runs sends what comes, goes on when a file is deleted under it, and ends when it is told to.
func TestPushRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, r, o := received(t, 2, 2)
		var down atomic.Bool
		r.fault = func(w http.ResponseWriter, _ *http.Request, _ *pb.ProfilesData) bool {
			if down.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return down.Load()
		}
		log := &testenv.Log{}
		o.Once, o.Log, o.MaxBackoff = false, log.Logger(), 0
		p := testenv.Must(New(o))
		testenv.Is(t, "a second Pusher", testenv.Err(New(o)), ErrInUse)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.check(t, profiled(t, dir), 0)
		down.Store(true)
		gone := filepath.Join(dir, "gone.tach")
		process{pid: 7, program: "gone"}.file(t, gone, 1, true)
		process{pid: 8, program: "stays"}.file(t, filepath.Join(dir, "stays.tach"), 1, true)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		testenv.FailIf(t, r.requests < 4+10, "%d requests while the target was down", r.requests)
		testenv.Same(t, "files sent before the target was down", o.Metrics.Files("sent"), 4)
		must(os.Remove(gone))
		down.Store(false)
		time.Sleep(2 * time.Minute)
		cancel()
		must(<-ended)
		r.check(t, profiled(t, dir), 0)
		text := strings.Join(log.Lines(), "\n")
		for line, most := range map[string]int{"sends again": 1, "cannot send now": 11} {
			testenv.Within(t, text+"\nhow often it says "+line, strings.Count(text, line), 1, most)
		}
	})
}

// When a Pusher is told to end, it finishes the present batch if that takes not too long.
func TestPushDrains(t *testing.T) {
	for _, c := range []struct {
		slow, took time.Duration
		sent       int64
	}{{1999 * time.Millisecond, 1999 * time.Millisecond, 1}, {time.Hour, 2 * time.Second, 0}} {
		synctest.Test(t, func(t *testing.T) {
			_, r, o := received(t, 1, 1)
			ctx, cancel := context.WithCancel(t.Context())
			var told time.Time
			r.fault = func(_ http.ResponseWriter, req *http.Request, _ *pb.ProfilesData) bool {
				told = time.Now()
				cancel()
				select {
				case <-time.After(c.slow):
				case <-req.Context().Done():
				}
				return false
			}
			o.Target.(*otlpTarget).client.Timeout = 0
			p := testenv.Must(New(o))
			err := p.Run(ctx)
			testenv.Same(t, fmt.Sprint("how long a batch of ", c.slow, " took"), time.Since(told), c.took)
			testenv.Same(t, "files sent", o.Metrics.Files("sent"), c.sent)
			testenv.FailIf(t, (err == nil) != (c.sent == 1), "%d files sent: %v", c.sent, err)
		})
	}
}

// Pyroscope gets each file as a pprof profile in a form, with a name, its labels and its time. The sums are the file's.
func TestPyroscope(t *testing.T) {
	dir, _, _ := received(t, 2, 2)
	got := sums{}
	var refused atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		keys := strings.Join(slices.Sorted(maps.Keys(q)), " ")
		testenv.FailIf(t, r.URL.Path != "/tenant/ingest" || keys != "from name spyName until" || r.Header.Get("X-Scope-OrgID") != "a", "%s with %v", r.URL, r.Header)
		if refused.CompareAndSwap(false, true) { // the first one comes again
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		must(r.ParseMultipartForm(1 << 20))
		part := func(name string) multipart.File { return testenv.Must(r.MultipartForm.File[name][0].Open()) }
		p := testenv.Must(pprof.Parse(part("profile")))
		types := map[string]struct{ Units string }{}
		must(json.NewDecoder(part("sample_type_config")).Decode(&types))
		var sum [2]time.Duration
		for i, st := range p.SampleType {
			testenv.Same(t, "the unit of "+st.Type, types[st.Type].Units, st.Unit)
			for _, s := range p.Sample {
				switch st.Type {
				case "wall":
					sum[0] += time.Duration(s.Value[i])
				case "cpu":
					sum[1] += time.Duration(s.Value[i])
				}
			}
		}
		name := q.Get("name")
		pid, ok := strings.CutPrefix(name, "my/shop_{deployment_environment_name=prod_x_,hostname=web-1,pid=")
		pid, _, ok2 := strings.Cut(pid, ",")
		testenv.FailIf(t, !ok || !ok2 || !strings.HasSuffix(name, ",service_version=v1.4.2}"), "the name is %s", name)
		from, _ := strconv.ParseInt(q.Get("from"), 10, 64)
		until, _ := strconv.ParseInt(q.Get("until"), 10, 64)
		testenv.Same(t, "the length", until-from, int64(time.Second))
		got[pid+" at "+strconv.FormatInt(from/1000, 10)] = sum
	}))
	defer server.Close()
	m := NewMetrics()
	target, name, key, err := Open("pyroscope+"+strings.Replace(server.URL, "//", "//ann:secret@", 1)+"/tenant/", TargetOptions{
		Header: http.Header{"X-Scope-Orgid": {"a"}}, Resource: [][2]string{{"service.name", "my/shop!"}, {"deployment.environment.name", "prod{x}"}}, Metrics: m,
	})
	must(err)
	defer target.Close()
	testenv.FailIf(t, strings.Contains(name, "secret"), "the password is in the name %s", name)
	err = push(t, Options{Dir: dir, Target: target, Name: name, Key: key, Once: true, Backoff: time.Millisecond, Metrics: m})
	testenv.FailIf(t, err != nil || m.Files("sent") != 4, "%v, %d files sent", err, m.Files("sent"))
	testenv.NoDiff(t, "", cmp.Diff(profiled(t, dir), got))
}

// precious makes a file outside of the directory. The test fails if it is changed.
func precious(t *testing.T) (path string) {
	path = filepath.Join(t.TempDir(), "precious")
	must(os.WriteFile(path, []byte("precious"), 0o600))
	t.Cleanup(func() {
		b, err := os.ReadFile(path)
		testenv.FailIf(t, string(b) != "precious", "the file outside of the directory has %q: %v", b, err)
	})
	return path
}

// Links that somebody has put where push writes do not make it write outside of the directory, and links to profiles
// are not sent.
func TestLinks(t *testing.T) {
	dir, r, o := received(t, 1, 1)
	damaged := filepath.Join(dir, "bad.tach")
	must(os.WriteFile(damaged, []byte("damaged"), 0o600))
	target := precious(t)
	c := reopen(t, dir)
	cursor := filepath.Join(dir, c.name)
	must(errors.Join(c.f.Close(), os.Remove(cursor)))
	o.Key = "to" // the cursor's name is that of c
	must(os.Mkdir(filepath.Join(dir, refusedDir), 0o700))
	for _, name := range []string{cursor + ".new", filepath.Join(dir, refusedDir, "bad.tach"), filepath.Join(dir, refusedDir, "bad.tach.reason.txt"), filepath.Join(dir, "link.tach")} {
		must(os.Symlink(target, name))
	}
	log := &testenv.Log{}
	o.Log = log.Logger()
	must(push(t, o))
	testenv.SameList(t, "requests, files sent and damaged", []int{r.requests, int(o.Metrics.Files("sent")), int(o.Metrics.Files("unreadable"))}, []int{1, 1, 1})
	testenv.FailIf(t, strings.Contains(fmt.Sprint(log.Lines()), "link.tach"), "a link is spoken of: %q", log.Lines())
	for _, name := range []string{cursor, filepath.Join(dir, refusedDir, "bad.tach.reason.txt")} {
		testenv.Same(t, name+" is a file", testenv.Must(os.Lstat(name)).Mode().IsRegular(), true)
	}
	// The cursor itself.
	must(os.Remove(cursor))
	must(os.Symlink(target, cursor))
	testenv.Fails(t, "a cursor that is a link", testenv.Err(New(o)), "symbolic link")
	must(errors.Join(os.Remove(cursor), os.Link(target, cursor)))
	testenv.Fails(t, "a cursor that is another file too", testenv.Err(New(o)), "several names")
	must(errors.Join(os.Remove(cursor), os.WriteFile(cursor, nil, 0o600)))
	for mode, want := range map[os.FileMode]string{0o602: "everybody may write", 0o620: "its group may write"} {
		must(os.Chmod(cursor, mode))
		testenv.Fails(t, fmt.Sprint("a cursor with mode ", mode), testenv.Err(New(o)), want)
	}
}

// The folder for what is refused is no link, and not that of another user.
func TestRefusedLink(t *testing.T) {
	elsewhere := t.TempDir()
	_, r, _ := received(t, 0, 0)
	for want, put := range map[string]func(refused string) error{
		"is no folder":        func(refused string) error { return os.Symlink(elsewhere, refused) },
		"everybody may write": func(refused string) error { return errors.Join(os.Mkdir(refused, 0o700), os.Chmod(refused, 0o777)) },
	} {
		dir, log := t.TempDir(), &testenv.Log{}
		must(errors.Join(os.WriteFile(filepath.Join(dir, "bad.tach"), []byte("damaged"), 0o600), put(filepath.Join(dir, refusedDir))))
		o := r.options(t, dir)
		o.Log = log.Logger()
		err, said := push(t, o), strings.Join(log.Lines(), "\n")
		testenv.FailIf(t, err != nil || !strings.Contains(said, "cannot be parked") || !strings.Contains(said, want), "%s: %v\n%q", want, err, said)
	}
	testenv.Empty(t, elsewhere)
}

// A file that becomes a link between the look into the directory and the reading is not read.
func TestLinkInTime(t *testing.T) {
	dir, _, _ := received(t, 1, 2)
	d := testenv.Closes(t, testenv.Must(openFolder(dir)))
	entries, _ := testenv.Must2(d.list(d))
	path := filepath.Join(dir, entries[0].name)
	must(errors.Join(os.Remove(path), os.Symlink(filepath.Base(entries[1].name), path)))
	testenv.Fails(t, "a link to a file beside it", testenv.Err(openFile(d, entries[0].name)), "symbolic link")
	below := filepath.Dir(path)
	must(errors.Join(os.Rename(below, filepath.Join(t.TempDir(), "moved")), os.Symlink(t.TempDir(), below)))
	testenv.FailIf(t, testenv.Err(openFile(d, entries[1].name)) == nil, "a file in a folder that is a link to outside was read")
}

// A directory to which others may write is only read: what push remembers is in a folder of its own, or there is none.
func TestShared(t *testing.T) {
	if runtime.GOOS == "windows" {
		testenv.Skip(t, "there are no modes")
	}
	dir, r, o := received(t, 1, 1)
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky, 0o702} {
		must(os.Chmod(dir, mode))
		testenv.Is(t, mode, testenv.Err(New(o)), ErrShared)
	}
	before := len(testenv.Must(os.ReadDir(dir)))
	must(os.WriteFile(filepath.Join(dir, "bad.tach"), []byte("damaged"), 0o600))
	o.State = filepath.Join(dir, "below", "state") // it is not searched for profiles
	for range 2 {
		must(push(t, o))
		testenv.Same(t, "requests", r.requests, 1)
	}
	testenv.Same(t, "names in the directory", len(testenv.Must(os.ReadDir(dir))), before+2)
	testenv.Must(os.Stat(filepath.Join(o.State, refusedDir, "bad.tach")))
	must(os.Chmod(o.State, 0o777))
	testenv.Is(t, "a state that others may write to", testenv.Err(New(o)), ErrShared)
	must(os.Chmod(dir, 0o770)) // a user's own group, as with the usual umask of some systems
	o.State = ""
	must(push(t, o))
	if os.Geteuid() != 0 {
		return
	}
	must(os.Chmod(dir, 0o700))
	must(os.Chown(dir, 12345, 12345))
	testenv.Is(t, "the directory of another user", testenv.Err(New(o)), ErrShared)
	testenv.Fails(t, "the directory of another user", testenv.Err(New(o)), "user 12345")
}

// When the directory is deleted and made again, push goes on with the new one.
func TestFolderReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, r, o := received(t, 1, 1)
		o.Once = false
		p := testenv.Must(New(o))
		ended := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(time.Minute)
		must(errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)))
		process{pid: 7, program: "new"}.file(t, filepath.Join(dir, "new.tach"), 1, true)
		time.Sleep(time.Minute)
		cancel()
		must(<-ended)
		testenv.Same(t, "requests", r.requests, 2)
	})
}

// Thousands of damaged files take no more time each than one, and only so many are kept.
func TestManyRefused(t *testing.T) {
	testenv.Long(t)
	dir := t.TempDir()
	empty, n := filepath.Join(t.TempDir(), "empty"), testenv.Times(120, 5000)
	must(errors.Join(os.WriteFile(empty, nil, 0o600), os.Mkdir(filepath.Join(dir, refusedDir), 0o700)))
	for i := range testenv.Times(maxParked*9/10, 0) { // by day, most are there
		old := filepath.Join(dir, refusedDir, fmt.Sprintf("old%d.tach", i))
		must(errors.Join(os.Link(empty, old), os.Link(empty, old+reasonSuffix)))
	}
	for i := range n {
		must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.tach", i)), []byte("damaged..."), 0o600))
	}
	_, r, _ := received(t, 0, 0)
	o := r.options(t, dir)
	p := testenv.Must(New(o))
	must(p.Run(t.Context()))
	testenv.Same(t, "files damaged", o.Metrics.Files("unreadable"), int64(n))
	kept := testenv.Must(filepath.Glob(filepath.Join(dir, refusedDir, "*.tach")))
	reasons := testenv.Must(filepath.Glob(filepath.Join(dir, refusedDir, "*"+reasonSuffix)))
	testenv.FailIf(t, len(kept) > maxParked || len(kept) < maxParked*9/10-1 || len(reasons) != len(kept), "%d files kept with %d reasons", len(kept), len(reasons))
	testenv.Within(t, "how often the folder was read", p.parking.counts, 0, 2+n/(maxParked/10))
	// The next process finds what this one has left.
	for i := len(kept); i <= maxParked; i++ {
		must(os.Link(empty, filepath.Join(dir, refusedDir, fmt.Sprintf("left%d.tach", i))))
	}
	must(os.WriteFile(filepath.Join(dir, "late.tach"), []byte("damaged"), 0o600))
	must(push(t, o))
	kept = testenv.Must(filepath.Glob(filepath.Join(dir, refusedDir, "*.tach")))
	testenv.Within(t, "files kept by two processes", len(kept), 0, maxParked)
}

// However long a target asks to wait, and however often, --once ends.
func TestOnceEnds(t *testing.T) {
	for _, c := range []struct {
		after string
		odd   bool // every second request is taken
	}{{"86400", false}, {"Fri, 01 Jan 2100 00:00:00 GMT", false}, {"100", true}} {
		synctest.Test(t, func(t *testing.T) {
			_, r, o := received(t, 4, 4)
			o.Tries, o.GiveUp = 8, 0
			r.fault = func(w http.ResponseWriter, _ *http.Request, _ *pb.ProfilesData) bool {
				if c.odd && r.requests%2 == 0 {
					return false
				}
				w.Header().Set("Retry-After", c.after)
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			}
			begin := time.Now()
			err := push(t, o)
			testenv.FailIf(t, !errors.As(err, new(errGivenUp)) || time.Since(begin) > 10*time.Minute, "%s: %v after %v", c.after, err, time.Since(begin))
		})
	}
}
