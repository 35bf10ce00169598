package top

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// A fileSource follows the file of a session, and after a rotation the next one.
type fileSource struct {
	f    *reader.Follower
	p    *part // nil before the first poll
	next nextFunc
}

// A nextFunc returns the path of the file that a program writes after another one, "" if there is
// none.
type nextFunc func(path string, session *tachyon.Session) string

// File watches a file, which its program may still be writing. If there is no file of this name,
// but the program rotates its files (app.1.tach, app.2.tach), the latest one is watched.
func File(path string) (*Watch, error) {
	f, err := reader.Follow(path)
	if errors.Is(err, fs.ErrNotExist) {
		if latest := latestFile(path); latest != "" {
			f, err = reader.Follow(latest)
		}
	}
	if err != nil {
		return nil, err
	}
	return newFileWatch(path, f, nextFile), nil
}

// Recording watches a file that is written only to be watched. stop ends that; it is called once,
// by Close.
func Recording(name, path string, stop func() error) (*Watch, error) {
	f, err := reader.Follow(path)
	if err != nil {
		return nil, err
	}
	w := newFileWatch(name, f, func(string, *tachyon.Session) string { return "" })
	w.source = &recordingSource{w.source, stop}
	return w, nil
}

// A recordingSource is one whose file ends with it.
type recordingSource struct {
	source
	stop func() error
}

func (s *recordingSource) close() error { return errors.Join(s.source.close(), s.stop()) }

func newFileWatch(name string, f *reader.Follower, next nextFunc) *Watch {
	return &Watch{source: &fileSource{f: f, next: next}, recent: newRecent(), state: State{Name: name, Live: true}}
}

func (s *fileSource) close() error { return s.f.Close() }

// poll implements source.
func (s *fileSource) poll(_ context.Context, w *Watch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := s.p == nil
	for {
		err := s.read(w)
		if err != nil && !errors.Is(err, reader.ErrReplaced) {
			return err
		}
		if err == nil && !s.f.Finished() {
			w.state.Live, w.state.Ended = true, ""
			w.state.Notice = silence(w.recent.to, s.p.session, time.Now())
			return nil
		}
		f, e := s.following()
		if e != nil {
			return e
		}
		if f == nil {
			if err != nil {
				return err
			}
			break
		}
		s.f.Close()
		s.f, s.p = f, nil
	}
	w.state.Notice = ""
	if w.state.Live && !first {
		w.state.Ended = "the file is finished"
	}
	w.state.Live = false
	return nil
}

// silent is the time without samples after which something is wrong: while a program does nothing,
// goroutines are still sampled each second.
const silent = 5 * time.Second

// silence says that a program has had no samples for some time, given the time of the latest one in
// µs, and perhaps why.
func silence(latest uint64, session *tachyon.Session, now time.Time) string {
	since := now.Sub(microTime(latest))
	if latest == 0 || since < silent || since > 1000*time.Hour {
		return ""
	}
	if host, err := os.Hostname(); err == nil && session != nil && session.Host == host && !processExists(session.PID) {
		return "the program has ended and did not finish the file; gotach recover does"
	}
	return fmt.Sprintf("no sample for %v", since.Round(time.Second))
}

// processExists reports whether there is a process with an id. If nobody knows, it does.
func processExists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil || pid <= 0 {
		return true
	}
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// following opens the file that the program writes after the present one, nil if there is none: the
// next one of a rotation, or a new one in the place of the present one.
func (s *fileSource) following() (*reader.Follower, error) {
	path := s.next(s.f.Path(), s.p.session)
	if path == "" {
		return nil, nil
	}
	f, err := reader.Follow(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// read reads what is new in the present file.
func (s *fileSource) read(w *Watch) error {
	p := s.p
	if p == nil {
		p = newPart()
		s.p = p
		w.recent.parts = append(w.recent.parts, p)
	}
	news := w.news(p)
	news.Batch = func(b *reader.Batch) {
		p.header, p.session = s.f.Header(), s.f.Session()
		if w.recent.count == 0 {
			w.recent.from = p.header.Start
		} else if len(p.threads) == 0 && !sameSession(w.recent.parts[0].session, p.session) {
			w.recent.reset() // the program was started again
			w.recent.parts, w.recent.from = []*part{p}, p.header.Start
		}
		w.recent.add(p, b)
	}
	err := s.f.Poll(news)
	p.header, p.frames, p.running = s.f.Header(), s.f.Frames(), !s.f.Finished()
	p.forget()
	if session := s.f.Session(); session != nil {
		p.session = session
		p.mark()
	}
	return err
}

func sameSession(a, b *tachyon.Session) bool {
	return a == nil || b == nil || a.PID == b.PID && a.Host == b.Host && a.SessionStart.Equal(b.SessionStart)
}

// number cuts the number of a rotated file out of its path.
func number(path string) (before string, n int, ext string) {
	ext = filepath.Ext(path)
	before = strings.TrimSuffix(path, ext)
	if dot := strings.LastIndexByte(before, '.'); dot > 0 {
		if n, err := strconv.Atoi(before[dot+1:]); err == nil && n > 0 {
			return before[:dot], n, ext
		}
	}
	return before, 1, ext
}

// nextFile returns the path of the file that a program writes after this one, "" if it is not
// there.
func nextFile(path string, session *tachyon.Session) string {
	if session != nil && session.Part > 0 {
		before, n, ext := number(path)
		next := fmt.Sprintf("%s.%d%s", before, n+1, ext)
		if _, err := os.Stat(next); err == nil {
			return next
		}
	}
	if fi, err := os.Stat(path + ".journal"); err == nil && fi.Mode().IsRegular() {
		return path // it was started again
	}
	return ""
}

// latestFile returns the path of the rotated file with the highest number, "" if there is none.
func latestFile(path string) (latest string) {
	ext := filepath.Ext(path)
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return ""
	}
	most := 0
	for _, e := range list {
		name := filepath.Join(filepath.Dir(path), e.Name())
		if before, n, x := number(name); n > most && x == ext && before == strings.TrimSuffix(path, ext) && name != path {
			most, latest = n, name
		}
	}
	return latest
}
