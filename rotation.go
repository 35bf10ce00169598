package profiler

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/rotate"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// The defaults of KeepFiles and KeepBytes.
const (
	keepFiles = 100
	keepBytes = 1_000_000_000
)

// The lower limits of the options. The writer's buffer holds half a megabyte of samples
// before compression, so smaller files would not be exact.
const (
	minRotateTime  = time.Second
	minRotateBytes = 1_000_000
	minKeepBytes   = 2 * minRotateBytes // one file takes at most half of KeepBytes
)

// A rotation says when a new file begins. The zero value means never.
type rotation struct {
	every time.Duration
	bytes int64
}

// String returns the rotation in the form of PROFILE_ROTATE, or "one file".
func (r rotation) String() string {
	switch {
	case r == rotation{}:
		return "one file"
	case r.every == 0:
		return formatBytes(r.bytes)
	case r.bytes == 0:
		return r.every.String()
	}
	return r.every.String() + "," + formatBytes(r.bytes)
}

// setRotation replaces what RotateEvery and RotateBytes have set.
func (c *config) setRotation(r rotation) error {
	try := config{}
	if r.every != 0 {
		if err := RotateEvery(r.every)(&try); err != nil {
			return err
		}
	}
	if r.bytes != 0 {
		if err := RotateBytes(r.bytes)(&try); err != nil {
			return err
		}
	}
	c.rotate = r
	return nil
}

// kept says how many finished files are kept, and how many bytes.
type kept struct {
	files int
	bytes int64
}

// String returns k in the form of PROFILE_KEEP.
func (k kept) String() string { return strconv.Itoa(k.files) + "," + formatBytes(k.bytes) }

// setKept replaces what KeepFiles and KeepBytes have set. Zero in k means the default.
func (c *config) setKept(k kept) error {
	try := config{keep: kept{keepFiles, keepBytes}}
	if k.files != 0 {
		if err := KeepFiles(k.files)(&try); err != nil {
			return err
		}
	}
	if k.bytes != 0 {
		if err := KeepBytes(k.bytes)(&try); err != nil {
			return err
		}
	}
	c.keep = try.keep
	return nil
}

// parseRotation parses a duration, a size, both with a comma between them, or "none".
func parseRotation(s string) (r rotation, err error) {
	if s == none {
		return r, nil
	}
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		if d, e := time.ParseDuration(item); e == nil && d > 0 && r.every == 0 {
			r.every = d
		} else if n, e := parseBytes(item); e == nil && r.bytes == 0 {
			r.bytes = n
		} else {
			return rotation{}, errors.New("not a duration such as 60s, a size such as 100MB, or both as 60s,100MB")
		}
	}
	return r, nil
}

// parseKept parses a number of files, a size, or both with a comma between them.
func parseKept(s string) (k kept, err error) {
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		if n, e := strconv.Atoi(item); e == nil && n > 0 && k.files == 0 {
			k.files = n
		} else if n, e := parseBytes(item); e == nil && k.bytes == 0 {
			k.bytes = n
		} else {
			return kept{}, errors.New("not a number of files such as 20, a size such as 500MB, or both as 20,500MB")
		}
	}
	return k, nil
}

var units = []struct {
	name string
	size int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
}

// parseBytes parses a positive whole number with a unit.
func parseBytes(s string) (int64, error) {
	for _, u := range units {
		if len(s) <= len(u.name) || !strings.EqualFold(s[len(s)-len(u.name):], u.name) {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(s[:len(s)-len(u.name)]), 10, 64)
		if err != nil || n <= 0 || n > (1<<62)/u.size {
			break
		}
		return n * u.size, nil
	}
	return 0, errors.New("not a size such as 100MB")
}

func formatBytes(n int64) string {
	for i := len(units) - 1; i >= 0; i-- {
		if u := units[i]; n%u.size == 0 {
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// A sink writes a session's samples to one file after the other.
type sink struct {
	*rotate.Writer
	s     *Session
	part  int // number of the file that is being written, from 1
	names objectNames
}

// create makes the session's file, or with rotation its first file.
func (s *Session) create(o writer.Options) (*sink, error) {
	c := &s.config
	out := &sink{s: s, names: objectNames{find: findVariables}}
	ro := rotate.Options{
		Every: c.rotate.every, Bytes: c.rotate.bytes, Samples: c.fileSamples,
		Keep: c.keep.files, KeepBytes: c.keep.bytes,
		OneFile: c.oneFile != "",
		Writer:  o,
		Begin: func(w *writer.Writer, start uint64) error {
			part := out.part + 1
			if part == 1 && c.rotate == (rotation{}) {
				part = 0 // there will probably be no second file
			}
			return s.provide(w, part, time.Duration(start-o.Start)*time.Microsecond)
		},
		Failed: s.fail,
	}
	if half := c.keep.bytes / 2; c.rotate != (rotation{}) && (ro.Bytes == 0 || ro.Bytes > half) {
		ro.Bytes = half
	}
	var err error
	if out.Writer, err = rotate.Create(s.path, ro); err != nil {
		return nil, err
	}
	out.part = 1
	return out, nil
}

// provide adds provisional session metadata to a file, in case it is never finished.
func (s *Session) provide(w *writer.Writer, part int, at time.Duration) error {
	return w.Provisional(tachyon.KindSession, s.describe(part, at, nil))
}

// add writes the metadata of the nth part to its file. unnamed are its objects that may have names.
func (s *Session) add(w *writer.Writer, n int, p *sampler.Part, names *objectNames, unnamed []tachyon.Object) error {
	if d := p.Stats.Unwritten; d > 0 {
		s.config.log().Warn("gotach: samples are missing, because they could not be written", "for", d.Round(time.Millisecond), "dropped", p.Stats.Dropped, "until", s.start.Add(p.End).Round(0))
	}
	err := w.WriteRecords(&tachyon.Records{Goroutines: p.Goroutines})
	err = cmp.Or(err, names.finish(w, unnamed))
	for _, m := range s.metadata(n, p, names.reason()) {
		if err := w.AddMetadata(m.kind, m.value); err != nil {
			return err // the writer keeps its first error; Close finishes the file if it can
		}
	}
	return err
}

// Next begins a new file. The sampler calls it when a file is full; at is the time since
// the session's start.
func (k *sink) Next(at time.Duration, cut func() sampler.Part) {
	start := uint64(k.s.start.UnixMicro()) + uint64(at.Microseconds())
	k.Writer.Next(start, func() func(*writer.Writer) error {
		p, n, unnamed := cut(), k.part, k.names.cut()
		k.part++
		return func(w *writer.Writer) error { return k.s.add(w, n, &p, &k.names, unnamed) }
	})
}

// end finishes the file that is being written.
func (k *sink) end(p *sampler.Part) error {
	n := k.part
	if n == 1 && k.s.config.rotate == (rotation{}) {
		n = 0 // the session has one file
	}
	k.names.settle()
	unnamed := k.names.cut()
	return k.Writer.Close(func(w *writer.Writer) error { return k.s.add(w, n, p, &k.names, unnamed) })
}

// discard removes the file of a session that could not begin. If a file with contents existed
// before, Create has emptied it. That file stays, and its metadata have the error why.
func (k *sink) discard(why error) error {
	k.names.settle()
	return k.Writer.Discard(func(w *writer.Writer) error {
		d := k.s.describe(0, 0, nil)
		d.Error = why.Error()
		return w.AddMetadata(tachyon.KindSession, d)
	})
}
