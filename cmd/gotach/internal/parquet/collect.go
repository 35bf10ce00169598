package parquet

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// A collector makes runs of a source's samples.
type collector struct {
	src    *stream.Source
	o      *Options
	offset int64 // µs since 1970 when the source's clock shows 0
	places places
	stacks stacks
	files  []facts
	slots  []open // of the present file
	sorted *sorter
}

// facts are what all runs of a file have in common.
type facts struct {
	service, host, version, instance string
	pid                              int64
	gotach                           bool  // gotach recorded it
	start, end                       int64 // µs since 1970
	notSeen                          time.Duration
	part                             int // number in the session; 0: it has one file
	begin                            time.Time
}

// An open run has not ended.
type open struct {
	row
	labels *stream.Labels
	some   bool
}

// A row is a run before it is written.
type row struct {
	start, wall, cpu int64 // start in µs since 1970, the others in ns
	goroutine        uint64
	file             uint32 // index into collector.files
	creator          uint32 // of the source
	place            uint32
	kind             uint8
	labels           string // as stream.Labels.Key
}

// The kinds of runs.
const (
	ofGoroutine = iota
	ofRuntime
	ofProcess
)

var kinds = [...]string{"goroutine", "runtime", "process"}

const minute = 60 * 1_000_000 // µs

// maxPieces bounds the pieces of one sample. Samples that are longer than so many minutes are those
// of damaged files, or of long pauses between two files. They are not divided.
const maxPieces = 24 * 60

func newCollector(src *stream.Source, o *Options, dir string) (*collector, error) {
	c := &collector{src: src, o: o, stacks: stacks{src: src}, sorted: &sorter{dir: dir}}
	c.sorted.less = c.less
	c.places = places{src: src, stacks: &c.stacks, known: map[placeKey]uint32{}, objects: map[int32]object{}}
	if s := src.Metadata().Session; s != nil && !s.Start.IsZero() {
		c.offset = s.Start.UnixMicro() - int64(src.Header().Start)
	}
	return c, src.EachObject(c.places.addObject)
}

// collect reads all samples.
func (c *collector) collect() error {
	for s, err := range c.src.Samples() {
		if err != nil {
			return err
		}
		if s.NotSeen {
			return c.notSeen(s)
		}
		if file, f := c.src.File(); file >= len(c.files) {
			if err := c.begin(file, f); err != nil {
				return err
			}
		}
		if err := c.add(s); err != nil {
			return err
		}
	}
	return c.finish()
}

// begin begins with a file. Files without samples are left out before it.
func (c *collector) begin(file int, f stream.File) error {
	if err := c.finish(); err != nil {
		return err
	}
	for len(c.files) < file {
		c.files = append(c.files, facts{})
	}
	m, err := f.Stream.Overview()
	if err != nil {
		return err
	}
	c.files = append(c.files, c.facts(m.Session))
	return nil
}

func (c *collector) facts(s *tachyon.Session) facts {
	f := facts{service: c.o.Service, version: c.o.Version}
	if s == nil {
		return f
	}
	f.gotach = true
	if f.service == "" {
		f.service, _ = stream.ProcessLabel(s, "service")
	}
	if f.version == "" {
		f.version, _ = stream.ProcessLabel(s, "version")
	}
	f.host, f.pid, f.notSeen, f.part = s.Host, int64(s.PID), s.NotSeen, s.Part
	f.start, f.end = s.Start.UnixMicro(), s.Start.Add(s.Duration).UnixMicro()
	f.begin = s.SessionStart
	if f.begin.IsZero() {
		f.begin = s.Start
	}
	f.instance = f.host + "-" + strconv.Itoa(s.PID) + "-" + f.begin.UTC().Format("20060102T150405.000000Z")
	return f
}

// add adds a sample to the open run of its goroutine.
func (c *collector) add(s *stream.Sample) error {
	if n := c.src.Slots() - len(c.slots); n > 0 {
		c.slots = append(c.slots, make([]open, n)...)
	}
	end := int64(s.Time) + c.offset
	length := s.Wall.Microseconds()
	begin := end - length
	place := c.places.of(s)
	at := &c.slots[s.Slot]
	divide := length/minute < maxPieces
	for {
		stop := end
		if next := begin - mod(begin, minute) + minute; divide && next < end {
			stop = next
		}
		wall, cpu := time.Duration(stop-begin)*time.Microsecond, time.Duration(0)
		if !divide {
			wall = s.Wall
		}
		if s.CPU() > 0 {
			cpu = wall
		}
		if err := c.piece(at, s, place, begin, wall, cpu); err != nil {
			return err
		}
		if begin = stop; begin >= end {
			return nil
		}
	}
}

// piece adds a part of a sample that begins at a time and is within a minute.
func (c *collector) piece(at *open, s *stream.Sample, place uint32, begin int64, wall, cpu time.Duration) error {
	moved := s.Status&tachyon.Moved != 0 && s.Status&(tachyon.OnCPU|tachyon.HasGIL) == 0 // another wait
	if at.some && at.place == place && at.row.start+at.wall/1000 == begin && mod(begin, minute) != 0 && !moved && sameLabels(at.labels, s.Labels) {
		at.wall += int64(wall)
		at.cpu += int64(cpu)
		return nil
	}
	if err := c.close(at); err != nil {
		return err
	}
	at.some, at.labels = true, s.Labels
	at.row = row{
		start: begin, wall: int64(wall), cpu: int64(cpu), goroutine: stream.GoroutineInFile(s.Goroutine),
		file: uint32(len(c.files) - 1), creator: s.Creator, place: place, kind: c.kind(s),
	}
	if at.kind == ofProcess {
		at.goroutine = 0
	}
	if s.Labels != nil {
		at.row.labels = s.Labels.Key
	}
	return nil
}

func sameLabels(a, b *stream.Labels) bool {
	return a == b || a != nil && b != nil && a.Key == b.Key
}

// kind says what has a sample's time.
func (c *collector) kind(s *stream.Sample) uint8 {
	switch {
	case !c.files[len(c.files)-1].gotach || s.Interpreter == tachyon.User:
		return ofGoroutine
	case s.Interpreter == tachyon.Process:
		return ofProcess
	}
	return ofRuntime
}

// close ends an open run.
func (c *collector) close(at *open) error {
	if !at.some {
		return nil
	}
	at.some = false
	c.places.use(at.place)
	return c.sorted.add(&at.row)
}

// finish ends all open runs.
func (c *collector) finish() error {
	for i := range c.slots {
		if err := c.close(&c.slots[i]); err != nil {
			return err
		}
	}
	clear(c.slots)
	c.slots = c.slots[:0]
	return nil
}

// notSeen adds the time without samples of all files, given the sample that has their sum.
func (c *collector) notSeen(s *stream.Sample) error {
	if err := c.finish(); err != nil {
		return err
	}
	place := c.places.of(s)
	c.places.use(place)
	left := int64(s.Wall)
	for i, f := range c.files {
		part := min(left, int64(f.notSeen))
		if i == len(c.files)-1 {
			part = left
		}
		if part <= 0 {
			continue
		}
		left -= part
		if err := c.sorted.add(&row{start: f.start, wall: part, file: uint32(i), place: place, kind: ofProcess}); err != nil {
			return err
		}
	}
	return nil
}

// less is the order of rows.
func (c *collector) less(a, b *row) int {
	if a.file != b.file {
		if n := strings.Compare(c.files[a.file].service, c.files[b.file].service); n != 0 {
			return n
		}
	}
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.file, b.file), cmp.Compare(a.goroutine, b.goroutine),
		cmp.Compare(a.kind, b.kind), cmp.Compare(a.place, b.place), cmp.Compare(a.wall, b.wall))
}

// mod returns a modulo b, which is never negative.
func mod(a, b int64) int64 { return (a%b + b) % b }

// name returns a name for the files: of the first file's instance, with the number of the part.
func (c *collector) name() string {
	name := ""
	for _, f := range c.files {
		if f.instance != "" {
			name = f.instance
			if len(c.files) == 1 && f.part > 0 {
				name += "-" + strconv.Itoa(f.part)
			}
			break
		}
	}
	if len(c.files) > 1 {
		name += "-" + strconv.Itoa(len(c.files)) + "files"
	}
	// Host names are letters, digits, hyphens and dots; files of unknown origin may say anything.
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, strings.TrimLeft(name, ".-"))
	if name == "" {
		return "profile"
	}
	return name[:min(len(name), 200)]
}
