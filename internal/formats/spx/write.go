package spx

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// Options says what Write makes of a profile. The zero value is one report that
// SPX's own pages show right.
type Options struct {
	// PerGoroutine makes a report of each goroutine, instead of one in which
	// they lie end to end.
	PerGoroutine bool

	// Microseconds writes times as descriptions of the format have them, in
	// microseconds with four decimals. SPX's pages take them for nanoseconds.
	Microseconds bool
}

// manyGoroutines is how many may have a root of their own in a report; the
// list of functions would consist of roots alone.
const manyGoroutines = 300

// Write writes reports of the profile into dir and returns their keys. The
// inclusive times of the roots add up to the profile's total exactly.
func Write(dir string, t *Timeline, o Options) (keys []string, err error) {
	if len(t.Goroutines) == 0 {
		return nil, errors.New("the profile has no samples, and an SPX report without events cannot be shown")
	}
	x := newExport(t, o)
	if !o.PerGoroutine {
		key, err := x.report(dir, t.Start, t.Goroutines)
		if err != nil {
			return nil, err
		}
		return []string{key}, nil
	}
	for i := range t.Goroutines {
		g := &t.Goroutines[i]
		key, err := x.report(dir, t.Start.Add(g.Start), t.Goroutines[i:i+1])
		if err != nil {
			return keys, fmt.Errorf("goroutine %d: %w", g.ID, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

type export struct {
	*Timeline
	Options
	session *tachyon.Session // nil: the file is not gotach's
	names   []string         // of each frame's function
	roots   bool             // each goroutine has one of its own
}

func newExport(t *Timeline, o Options) *export {
	x := &export{Timeline: t, Options: o, roots: o.PerGoroutine || len(t.Goroutines) <= manyGoroutines}
	if t.Metadata != nil {
		x.session = t.Metadata.Session
	}
	// Functions of equal names, which other languages have, stay apart.
	x.names = make([]string, len(t.Frames))
	files := map[string]string{}
	for i, f := range t.Frames {
		name := cmp.Or(f.Func, path.Base(f.File))
		if first, ok := files[name]; !ok {
			files[name] = f.File
		} else if first != f.File {
			name += " (" + f.File + ")"
		}
		x.names[i] = name
	}
	return x
}

// root returns the name of the root that a goroutine lies under.
func (x *export) root(g *Goroutine) string {
	if x.process(g) {
		return x.name(g.Runs[0].Node)
	}
	kind := "goroutine"
	switch {
	case x.session == nil: // of another program than gotach, such as CPython
		kind = "thread"
	case g.Interpreter != 0:
		kind = "runtime goroutine"
	}
	if x.roots && x.session == nil && g.Interpreter != 0 {
		return fmt.Sprintf("thread %d of interpreter %d", g.ID, g.Interpreter)
	}
	if x.roots {
		return fmt.Sprintf("%s %d", kind, g.ID)
	}
	for _, r := range g.Runs {
		if r.Node != 0 {
			outermost := r.Node
			for x.Nodes[outermost].Parent != 0 {
				outermost = x.Nodes[outermost].Parent
			}
			return kind + "s of " + x.name(outermost)
		}
	}
	return kind + "s without a stack"
}

// process reports whether g is no goroutine. Then all its stacks are the same frame.
func (x *export) process(g *Goroutine) bool {
	return x.session != nil && g.Interpreter == tachyon.Process && len(g.Runs) > 0 && g.Runs[0].Node != 0
}

// report writes one report of some goroutines.
func (x *export) report(dir string, start time.Time, gs []Goroutine) (key string, err error) {
	m := x.metadata(start)
	w, err := create(dir, m)
	if err != nil {
		return "", err
	}
	w.micros = x.Microseconds
	var path []uint32
	for i := range gs {
		g := &gs[i]
		w.enter(x.root(g))
		for _, run := range g.Runs {
			path = x.Path(path[:0], run.Node)
			if x.process(g) && len(path) > 0 {
				path = path[1:] // the root has that name
			}
			shared := 0
			for shared < len(path) && 1+shared < len(w.open) && w.open[1+shared].name == x.name(path[shared]) {
				shared++
			}
			w.leave(1 + shared)
			for _, node := range path[shared:] {
				w.enter(x.name(node))
			}
			w.wall += run.Wall.Nanoseconds()
			w.cpu += run.CPU.Nanoseconds()
		}
		w.leave(0)
	}
	return m.Key, w.close()
}

// name returns the name of a node's function.
func (x *export) name(node uint32) string { return x.names[x.Nodes[node].Frame] }

func (x *export) metadata(start time.Time) Metadata {
	var s tachyon.Session
	if x.session != nil {
		s = *x.session
	}
	unit := ""
	if x.Microseconds {
		unit = ", times in microseconds"
	}
	note := fmt.Sprintf("%s%v%s. Called counts stretches observed, not calls.", sampledNote, x.Interval, unit)
	host := escape(cmp.Or(s.Host, "unknown"))
	return Metadata{
		Key:            key(start, host, s.PID),
		ExecTS:         start.Unix(),
		HostName:       host,
		ProcessPID:     int64(s.PID),
		ProcessTID:     int64(s.PID),
		ProcessPWD:     "n/a",
		CLI:            1,
		CLICommandLine: escape(cmp.Or(s.Program, s.Executable, "n/a")),
		HTTPRequestURI: "n/a",
		HTTPMethod:     "n/a",
		HTTPHost:       "n/a",
		CustomMetadata: &note,
	}
}

// key makes a name as SPX does. The random number keeps reports of one second apart.
func key(start time.Time, host string, pid int) string {
	host = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.', r == '_':
			return r
		}
		return '_'
	}, host)
	return fmt.Sprintf("spx-full-%s-%s-%d-%d", start.Format("20060102_150405"), host, pid, rand.Int32())
}
