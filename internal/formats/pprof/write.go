package pprof

import (
	"io"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/formats/protobuf"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// Write writes a profile, gzipped. Its sample types are samples/count, wall/nanoseconds,
// which is the default, and cpu/nanoseconds. Each sample has the labels goroutine (a
// number), state, and the goroutine's own. Time of no goroutine, such as that of
// [scheduler], has no label goroutine.
func Write(w io.Writer, p *profile.Profile) error {
	return write(newEncoder(w, false), p)
}

// WriteCPU writes a CPU profile, as go build -pgo takes it. Its sample types are cpu/nanoseconds,
// which is the default and the first one, and samples/count. Samples have no labels.
func WriteCPU(w io.Writer, p *profile.Profile) error { return write(newEncoder(w, true), p) }

func write(e *encoder, p *profile.Profile) error {
	defer e.z.Close()
	for i := range p.Records {
		if err := e.record(p, &p.Records[i]); err != nil {
			return err
		}
	}
	return e.finish(p)
}

// maxRecords is the number of records that are in memory while a source is written.
const maxRecords = 1 << 17

// WriteStream writes the samples of a source, which has labels, as Write does. Without goroutines
// it adds them up: then samples have no label goroutine. Its memory does not grow with the number
// of goroutines or labels: if there are very many, there may be several samples that are equal but
// for their values, which readers of the format add up.
func WriteStream(w io.Writer, src *stream.Source, goroutines bool) error {
	e := newEncoder(w, false)
	defer e.z.Close()
	p, err := profile.Each(src, profile.Detail{Goroutines: goroutines, Labels: true}, maxRecords, e.record)
	if err != nil {
		return err
	}
	return e.finish(p)
}

// An encoder writes the protocol buffer message of a profile. Samples come before the locations and
// functions to which they refer, and strings when they are first used, so all can be written at
// once. Readers take fields in any order. Apart from that, the bytes are those that package
// github.com/google/pprof/profile writes, which has all in memory.
type encoder struct {
	cpu bool // only CPU time, without labels

	z *compressor
	b []byte // not written yet
	m []byte // the message in the making
	l []byte // a label in the making

	strings   stringTable
	locations []uint64 // by frame: its number; 0: none yet
	order     []uint32 // frames by location - 1
	labels    []label
}

// A label is one of a sample's.
type label struct{ key, value string }

// The fields of the messages.
const (
	profileSampleType  = 1
	profileSample      = 2
	profileMapping     = 3
	profileLocation    = 4
	profileFunction    = 5
	profileString      = 6
	profileTime        = 9
	profileDuration    = 10
	profilePeriodType  = 11
	profilePeriod      = 12
	profileComment     = 13
	profileDefaultType = 14

	sampleLocation = 1
	sampleValue    = 2
	sampleLabel    = 3

	labelKey  = 1
	labelStr  = 2
	labelNum  = 3
	labelUnit = 4
)

func newEncoder(w io.Writer, cpu bool) *encoder {
	e := &encoder{z: newCompressor(w), cpu: cpu}
	e.strings.add("")
	types := [][2]string{{"samples", "count"}, {"wall", "nanoseconds"}, {"cpu", "nanoseconds"}}
	if cpu {
		types = [][2]string{{"cpu", "nanoseconds"}, {"samples", "count"}}
	}
	for _, t := range types {
		e.valueType(profileSampleType, t[0], t[1])
	}
	return e
}

// valueType appends the message of a type and a unit.
func (e *encoder) valueType(field int, kind, unit string) {
	m := protobuf.Number(nil, 1, uint64(e.strings.add(kind)))
	e.b = protobuf.Message(e.b, field, protobuf.Number(m, 2, uint64(e.strings.add(unit))))
}

// flush writes what was encoded.
func (e *encoder) flush() error {
	_, err := e.z.Write(append(e.b, e.strings.b...))
	e.b, e.strings.b = e.b[:0], e.strings.b[:0]
	return err
}

// record encodes a record as a sample.
func (e *encoder) record(p *profile.Profile, r *profile.Record) error {
	m := e.m[:0]
	if n := len(r.Stack); n > 2 { // as in the reference, short lists are not packed
		e.l = e.l[:0]
		for _, id := range r.Stack {
			e.l = protobuf.Varint(e.l, e.location(id))
		}
		m = protobuf.Message(m, sampleLocation, e.l)
	} else {
		for _, id := range r.Stack {
			m = protobuf.Number(m, sampleLocation, e.location(id))
		}
	}
	e.l = e.l[:0]
	if e.cpu {
		e.l = protobuf.Varint(protobuf.Varint(e.l, uint64(r.CPU)), uint64(r.Count))
		return e.sample(protobuf.Message(m, sampleValue, e.l))
	}
	for _, v := range [...]int64{r.Count, int64(r.Wall), int64(r.CPU)} {
		e.l = protobuf.Varint(e.l, uint64(v))
	}
	m = protobuf.Message(m, sampleValue, e.l)
	e.labels = e.labels[:0]
	if r.State != "" {
		e.labels = append(e.labels, label{labelState, r.State})
	}
	if r.System {
		e.labels = append(e.labels, label{labelSystem, "true"})
	}
	for k, v := range r.Labels {
		if k == labelGoroutine || k == labelState || k == labelSystem || strings.HasPrefix(k, ownPrefix) {
			k = ownPrefix + k
		}
		e.labels = append(e.labels, label{k, v})
	}
	if len(e.labels) > 1 {
		slices.SortFunc(e.labels, func(a, b label) int { return strings.Compare(a.key, b.key) })
	}
	for _, l := range e.labels {
		key := e.strings.add(l.key)
		e.l = protobuf.Number(protobuf.Number(e.l[:0], labelKey, uint64(key)), labelStr, uint64(e.strings.value(l.value)))
		m = protobuf.Message(m, sampleLabel, e.l)
	}
	if p.Goroutines > 0 && r.OfGoroutine() && !r.Several {
		key := e.strings.add(labelGoroutine)
		e.l = protobuf.Number(protobuf.Number(e.l[:0], labelKey, uint64(key)), labelNum, r.Goroutine)
		e.l = protobuf.Number(e.l, labelUnit, uint64(e.strings.add("id")))
		m = protobuf.Message(m, sampleLabel, e.l)
	}
	return e.sample(m)
}

// sample appends the message of a sample.
func (e *encoder) sample(m []byte) error {
	e.m = m
	e.b = protobuf.Message(e.b, profileSample, m)
	if len(e.b)+len(e.strings.b) < 64<<10 {
		return nil
	}
	return e.flush()
}

// location returns the number of a frame's location.
func (e *encoder) location(frame uint32) uint64 {
	for int(frame) >= len(e.locations) {
		e.locations = append(e.locations, 0)
	}
	if e.locations[frame] == 0 {
		e.order = append(e.order, frame)
		e.locations[frame] = uint64(len(e.order))
	}
	return e.locations[frame]
}

// finish writes all that comes after the samples.
func (e *encoder) finish(p *profile.Profile) error {
	comments := []string{comment}
	e.mapping(p, &comments)
	e.tables(p)
	var period [2]int64
	measure := "wall"
	if e.cpu {
		measure = "cpu"
	}
	period[0], period[1] = e.strings.add(measure), e.strings.add("nanoseconds")
	var list []int64
	for _, c := range comments {
		list = append(list, e.strings.add(c))
	}
	kind := e.strings.add(defaultSampleType(p))
	if e.cpu {
		kind = e.strings.add(measure)
	}
	if !p.Start.IsZero() {
		e.b = protobuf.Number(e.b, profileTime, uint64(p.Start.UnixNano()))
	}
	e.b = protobuf.Number(e.b, profileDuration, uint64(p.Duration))
	e.b = protobuf.Message(e.b, profilePeriodType, protobuf.Number(protobuf.Number(nil, 1, uint64(period[0])), 2, uint64(period[1])))
	e.b = protobuf.Number(e.b, profilePeriod, uint64(p.Interval))
	for _, c := range list { // at most two, so they are not packed
		e.b = protobuf.Number(e.b, profileComment, uint64(c))
	}
	e.b = protobuf.Number(e.b, profileDefaultType, uint64(kind))
	if err := e.flush(); err != nil {
		return err
	}
	return e.z.Close()
}

// mapping encodes the only mapping. It adds a comment that describes the session.
func (e *encoder) mapping(p *profile.Profile, comments *[]string) {
	file, build := p.Program, ""
	var start, limit uint64
	if p.Metadata != nil && p.Metadata.Session != nil {
		s := p.Metadata.Session
		build = s.BuildID
		if s.Executable != "" {
			file = s.Executable
		}
		if pcs := p.Metadata.PCs; pcs != nil {
			start, limit = pcs.TextStart, pcs.TextStart+pcs.TextSize
		}
		*comments = append(*comments, describe(s))
	}
	m := protobuf.Number(nil, 1, 1)
	m = protobuf.Number(protobuf.Number(m, 2, start), 3, limit)
	m = protobuf.Number(m, 5, uint64(e.strings.add(file)))
	m = protobuf.Number(m, 6, uint64(e.strings.add(build)))
	for has := 7; has <= 10; has++ { // functions, file names, line numbers, inline frames
		m = protobuf.Number(m, has, 1)
	}
	e.b = protobuf.Message(e.b, profileMapping, m)
}

// tables encodes locations and functions.
func (e *encoder) tables(p *profile.Profile) {
	type function struct{ name, file string }
	type entry struct {
		function
		line uint64
	}
	numbers := map[function]int{}
	var functions []entry
	var m, line []byte
	for i, frame := range e.order {
		f := p.Frames[frame]
		key := function{f.Func, f.File}
		n, ok := numbers[key]
		if !ok {
			functions = append(functions, entry{function: key})
			n = len(functions)
			numbers[key] = n
		}
		if functions[n-1].line == 0 {
			functions[n-1].line = uint64(p.StartLine(frame))
		}
		line = protobuf.Number(protobuf.Number(line[:0], 1, uint64(n)), 2, uint64(max(f.Line, 0)))
		m = protobuf.Number(protobuf.Number(m[:0], 1, uint64(i+1)), 2, 1)
		e.b = protobuf.Message(e.b, profileLocation, protobuf.Message(m, 4, line))
	}
	for i, f := range functions {
		m = protobuf.Number(m[:0], 1, uint64(i+1))
		name := uint64(e.strings.add(f.name))
		m = protobuf.Number(protobuf.Number(m, 2, name), 3, name)
		m = protobuf.Number(protobuf.Number(m, 4, uint64(e.strings.add(f.file))), 5, f.line)
		e.b = protobuf.Message(e.b, profileFunction, m)
	}
}
