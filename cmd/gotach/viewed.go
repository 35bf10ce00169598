package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/stream"
)

const (
	// largeFiles is the size of profiles from which a page begins with some of the files, in bytes.
	// A reading of so much takes a few seconds.
	largeFiles = 64 << 20
	// sketchFiles is how much of them is read first.
	sketchFiles = 24 << 20
)

// A viewed is what gotach view shows: files and folders, of one profile or of two.
type viewed struct {
	sides [][]string
	o     formats.Options
	warn  func(error)
	large int64 // largeFiles if 0; less in tests

	mu    sync.Mutex
	said  map[string]bool // warnings
	times map[string]fileTime
}

// A fileTime is the time that a file is of, in µs since 1970.
type fileTime struct {
	path     string
	stamp    string // size and time of the file when this was known
	size     int64
	from, to int64 // to is MaxInt64 if the file is still written
	unknown  bool  // it cannot be read
}

// files returns the files of a side. A folder stands for the regular .tach files in it, if there
// are any.
func (v *viewed) files(side []string) (list []string) {
	for _, path := range side {
		entries, _ := os.ReadDir(path)
		n := len(list)
		for _, x := range entries {
			name := filepath.Join(path, x.Name())
			if filepath.Ext(name) != ".tach" {
				continue
			}
			if fi, err := os.Stat(name); err == nil && fi.Mode().IsRegular() {
				list = append(list, name)
			}
		}
		if len(list) == n {
			list = append(list, path)
		}
	}
	return list
}

// title returns the names of all, shortened.
func (v *viewed) title() string {
	var names []string
	for _, side := range v.sides {
		name := filepath.Base(side[0])
		if len(side) > 1 {
			name += fmt.Sprintf(" and %d more", len(side)-1)
		}
		names = append(names, name)
	}
	return strings.Join(names, " – ")
}

// check opens each file once, so that a wrong name is an error of the command.
func (v *viewed) check() error {
	o, err := v.open(context.Background(), page.Request{Sketch: true})
	if err != nil {
		return err
	}
	return o.Close()
}

// version returns the sizes and times of all files.
func (v *viewed) version() string {
	var b strings.Builder
	for _, side := range v.sides {
		for _, path := range v.files(side) {
			fmt.Fprintf(&b, "%s %s\n", path, stamp(path))
		}
	}
	return b.String()
}

// stamp returns the size and the time of a file and of its journal, and the beginning of the
// journal. Each sample changes that, but because it is mapped into memory, not the time of the
// file.
func stamp(path string) string {
	var b strings.Builder
	for _, path := range []string{path, path + ".journal"} {
		if fi, err := os.Stat(path); err == nil {
			fmt.Fprintf(&b, "%d %d ", fi.Size(), fi.ModTime().UnixNano())
		}
	}
	if f, _, err := files.Open(path + ".journal"); err == nil {
		head := make([]byte, 512)
		n, _ := io.ReadFull(f, head) // what cannot be read does not change
		f.Close()
		fmt.Fprintf(&b, "%x", crc32.ChecksumIEEE(head[:n]))
	}
	return b.String()
}

// open opens the profiles.
func (v *viewed) open(ctx context.Context, r page.Request) (_ *page.Opened, err error) {
	o := v.o
	o.Context, o.Warn = ctx, v.warnOnce
	if o.Select, err = r.Select(o.Select); err != nil {
		return nil, err
	}
	var opened []*formats.Input
	out := &page.Opened{Close: func() (err error) {
		for _, in := range opened {
			err = errors.Join(err, in.Close())
		}
		return err
	}}
	large := cmp.Or(v.large, largeFiles)
	for _, side := range v.sides {
		list, size := v.timed(side, r.Span)
		if size > large {
			out.Large = true
			some := sketch(list, size, large*sketchFiles/largeFiles)
			wrong := slices.ContainsFunc(list, func(x fileTime) bool { return x.unknown }) // formats.OpenAll has the error
			if r.Sketch && len(some) < len(list) && !wrong {
				out.Sketch = fmt.Sprintf("%d of %d files", len(some), len(list))
				list = some
			}
		}
		var paths []string
		for _, x := range list {
			paths = append(paths, x.path)
		}
		in, err := openAll(paths, o)
		if err != nil {
			return nil, errors.Join(err, out.Close())
		}
		opened = append(opened, in)
		if err := instantOnly(in, "html"); err != nil {
			return nil, errors.Join(err, out.Close())
		}
		if !in.HasSamples() {
			return nil, errors.Join(in.Named(in.OnlySums()), out.Close())
		}
		out.Growing = out.Growing || len(in.Unfinished()) > 0
		out.Inputs = append(out.Inputs, page.Input{Name: in.Name, Files: typed(side), Open: in.Source})
	}
	return out, nil
}

// timed returns the files of a side that have samples of a span, in order of time, and their size
// in bytes. It may return more files: a sample may stand for time that began in an earlier file. If
// the time of a file is unknown, it returns all.
func (v *viewed) timed(side []string, span page.Span) (list []fileTime, size int64) {
	unknown := false
	for _, path := range v.files(side) {
		x := v.time(path)
		list = append(list, x)
		size += x.size
		unknown = unknown || x.unknown
	}
	if unknown {
		return list, size
	}
	slices.SortStableFunc(list, func(a, b fileTime) int { return cmp.Compare(a.from, b.from) })
	if span == (page.Span{}) {
		return list, size
	}
	first, last := len(list), -1
	for i, x := range list {
		if x.from < span.To && x.to >= span.From {
			first, last = min(first, i), max(last, i)
		}
	}
	if last < 0 {
		return list, size
	}
	list = list[max(0, first-1):min(len(list), last+2)]
	size = 0
	for _, x := range list {
		size += x.size
	}
	return list, size
}

// time returns the time that a file is of.
func (v *viewed) time(path string) fileTime {
	v.mu.Lock()
	x, ok := v.times[path]
	v.mu.Unlock()
	now := stamp(path)
	if ok && x.stamp == now {
		return x
	}
	x = fileTime{path: path, stamp: now, to: math.MaxInt64, unknown: true}
	if fi, err := os.Stat(path); err == nil {
		x.size = fi.Size()
	}
	o := v.o
	o.Select, o.Warn = nil, func(error) {}
	if in, err := formats.Open(path, o); err == nil { // formats.OpenAll has the error
		if src, err := in.Source(stream.Options{}); err == nil {
			x.from, x.unknown = int64(src.Header().Start), false
			if m := src.Metadata().Session; m != nil && m.Duration > 0 && len(in.Unfinished()) == 0 {
				x.to = x.from + m.Duration.Microseconds()
			}
		}
		_ = in.Close() // it was only read
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.times == nil {
		v.times = map[string]fileTime{}
	}
	v.times[path] = x
	return x
}

// sketch returns some files that are spread over the time, with the first and the last one. Their
// size is about most bytes.
func sketch(list []fileTime, size, most int64) []fileTime {
	n := max(2, int(float64(len(list))*float64(most)/float64(max(1, size))))
	if n >= len(list) {
		return list
	}
	var some []fileTime
	for i := range n {
		some = append(some, list[i*(len(list)-1)/(n-1)])
	}
	return some
}

// warnOnce prints a warning, each once.
func (v *viewed) warnOnce(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.said[err.Error()] {
		return
	}
	if v.said == nil {
		v.said = map[string]bool{}
	}
	v.said[err.Error()] = true
	v.warn(err)
}
