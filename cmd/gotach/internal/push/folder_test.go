package push

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"

	"github.com/gotach/profiler/internal/testenv"
)

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
