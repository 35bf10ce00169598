package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// allowedAge is the age up to which samples and facts about goroutines may be missing after a kill. With
// GOTACH_KILLS it is what the documentation says. Otherwise the test runs beside others.
func allowedAge() time.Duration {
	if os.Getenv("GOTACH_KILLS") != "" {
		return 100 * time.Millisecond
	}
	return 300 * time.Millisecond
}

// back returns the latest time before end from which on the program ran for the time d. It is 0 if the
// program did not run for so long.
func (d diary) back(end uint64, ran time.Duration) uint64 {
	for i := d.word(beats); i > 0 && ran > 0; i-- {
		if t := d.beat(i - 1); t < end {
			ran -= min(time.Duration(end-t)*time.Microsecond, 5*time.Millisecond)
			end = t
		}
	}
	if ran > 0 {
		return 0
	}
	return end
}

// A fact is the label number of a worker from a time on.
type fact struct {
	from      uint64 // µs on the monotonic clock
	worker, n int
}

// checkFacts checks that the files have all facts about the samples up to a time.
func (d diary) checkFacts(files []string, until uint64) error {
	if slowed {
		return nil
	}
	for _, path := range files {
		if err := d.checkFile(path, until); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func (d diary) checkFile(path string, until uint64) error {
	r, err := reader.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := r.Metadata()
	if err != nil || m.Session == nil {
		return err // there may be nothing yet
	}
	start := r.Header().Start - d.word(epoch)
	created, labels, objects := map[uint64]bool{}, map[uint64][]fact{}, map[int32]bool{}
	for _, g := range m.Goroutines {
		created[g.ID] = g.CreatedBy != "" || g.ID == 1
		for _, l := range g.Labels {
			f := fact{start + l.From, -1, -1}
			if l.Labels["worker"] != "" {
				f.worker, _ = strconv.Atoi(l.Labels["worker"])
				f.n, _ = strconv.Atoi(l.Labels["n"])
			}
			labels[g.ID] = append(labels[g.ID], f)
		}
	}
	for _, o := range m.Objects {
		objects[o.Number] = true
	}
	native := m.Session.Source == "native"
	last := uint64(0)
	for s, err := range r.Samples() {
		if err != nil {
			return err
		}
		last = max(last, s.Time-d.word(epoch))
	}
	// Facts come 60 ms after samples, and samples are 20 ms old. They are older if the sampler has more to
	// do than it can: the stacks of these programs are as different as possible.
	until = min(until, last-min(last, 80_000))
	last = 0
	for s, err := range r.Samples() {
		if err != nil {
			return err
		}
		t := s.Time - d.word(epoch)
		if t > until || s.Interpreter != tachyon.User || len(s.Stack) == 0 {
			continue
		}
		last = max(last, t)
		if !created[s.Thread] {
			return fmt.Errorf("a sample of goroutine %d, %d µs before the time up to which nothing is missing, has no creator", s.Thread, until-t)
		}
		leaf := &r.Frames()[s.Stack[0]]
		if reader.IsObject(leaf) && !objects[leaf.Line] {
			return fmt.Errorf("goroutine %d waits for object %d, of which nothing is known, %d µs before that time", s.Thread, leaf.Line, until-t)
		}
		if !native {
			continue // the portable source may not see labels
		}
		for _, id := range s.Stack {
			if f := r.Frames()[id].Func; strings.HasSuffix(f, "e2e.left") || strings.HasSuffix(f, "e2e.right") {
				if err := d.checkLabel(labels[s.Thread], t, start); err != nil {
					return fmt.Errorf("goroutine %d, %d µs before that time: %w", s.Thread, until-t, err)
				}
				break
			}
		}
	}
	if end := start + uint64(m.Session.Duration.Microseconds()); last > 0 && (end < last || m.Session.TicksReached == 0 || m.Session.Cost == 0) {
		return fmt.Errorf("a sample at %d µs, but the session is %+v", last-start, m.Session)
	}
	return nil
}

// checkLabel checks that a worker's labels at a time are not old ones. They may be newer: the source reads
// them after it has read the time, and on a busy machine that can be long after. A sample may be from before the
// start of its file; its labels are those at the start.
func (d diary) checkLabel(list []fact, at, start uint64) error {
	const slack = 50_000
	i := sort.Search(len(list), func(i int) bool { return list[i].from > max(at, start) })
	if i == 0 {
		return fmt.Errorf("it has no labels; the first of %d come later", len(list))
	}
	f := list[i-1]
	if f.n < 0 {
		return fmt.Errorf("it has no labels from %d on", f.from)
	}
	if f.n+1 < maxLabels {
		if next := d.label(f.worker, f.n+1); next != 0 && next+slack < at {
			return fmt.Errorf("it has label %d, but the next one was set %d µs before", f.n, at-next)
		}
	}
	return nil
}

// After a rotation there may be a sample from before the file's start: the source says afterwards what a goroutine
// did when its CPU time began. It has the labels with which the file begins. If they come later, they are missing.
func TestLabelsBeforeStart(t *testing.T) {
	const fileStart, offset = 1_795_234_224_000_000, 1_795_000_000_000_000
	d := make(diary, diarySize)
	d.set(epoch, offset)
	for _, c := range []struct {
		from uint64
		want string
	}{{0, ""}, {2000, "it has no labels; the first of 2 come later"}} {
		path := filepath.Join(t.TempDir(), "x.tach")
		w, err := writer.Create(path, writer.Options{Start: fileStart, Interval: 1000})
		if err != nil {
			t.Fatal(err)
		}
		stack := []uint32{w.Intern(tachyon.Frame{Func: "github.com/gotach/profiler/internal/e2e.left", File: "x.go", Line: 3})}
		for _, at := range []int64{-5000, 1000, 300_000} {
			if err := w.Write(&tachyon.Sample{Thread: 23, Time: uint64(fileStart + at), Stack: stack}); err != nil {
				t.Fatal(err)
			}
		}
		spans := []tachyon.LabelSpan{
			{From: c.from, Labels: map[string]string{"worker": "2", "n": "5"}},
			{From: c.from + 50_000, Labels: map[string]string{"worker": "2", "n": "6"}},
		}
		err = errors.Join(
			w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{{ID: 23, CreatedBy: "main.main", Labels: spans}}}),
			w.AddMetadata(tachyon.KindSession, tachyon.Session{Source: "native", Duration: time.Second, Counts: tachyon.Counts{TicksReached: 1, Cost: 1}}),
			w.Close())
		if err != nil {
			t.Fatal(err)
		}
		err = d.checkFile(path, fileStart-offset+200_000)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("labels from %d µs after the start: %v, want %q", c.from, err, c.want)
		}
	}
}
