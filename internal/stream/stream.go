// Package stream reads the samples of one file or of many as one stream, one sample at a time,
// with all that a view needs: how much time it stands for, its goroutine, its stack, its labels.
// Sums, reports and analyses are made from it. It takes the memory that the threads of one
// or two files and the different stacks of all files need, however many samples and goroutines
// there are.
//
//	src, err := stream.New([]stream.File{{Name: path, Stream: r}}, stream.Options{})
//	for s, err := range src.Samples() {
//		if err != nil { … }
//		total[s.Stack] += s.Wall
//	}
//
// The files are decoded by goroutines of their own, several at a time; the loop gets the samples in
// order: file by file, and in each file in its order. The samples of a goroutine are in order of
// time, those of different goroutines are not.
//
// # Files
//
// Most use only those after them.
//
//   - read.go: the loop, and the weight of each sample
//   - select.go, moment.go: which samples are selected, and which times
//   - decode.go: files are decoded ahead
//   - seams.go: a goroutine's first sample in a file, after its last one in the file before
//   - facts.go: what a file says of its goroutines before their samples
//   - stops.go: how often goroutines stopped running
//   - copy.go: what a file of all samples says of goroutines
//   - objects.go, peers.go, session.go: objects, far ends of waits, and sessions of all files
//     together
//   - stream.go: Source and Sample
//   - class.go, states.go: names of states
//   - creators.go, labels.go, ids.go: tables of what comes again and again
//   - part.go: which files are of one process, and their order
package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/frames"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// A File is one of the files of a Source.
type File struct {
	Name   string // put before errors, if there are several files
	Stream reader.Stream
}

// named puts a file's name before an error, if it has one.
func named(f File, err error) error {
	if f.Name == "" || strings.HasPrefix(err.Error(), f.Name+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", f.Name, err)
}

// Options say what to read. The zero value is the usual choice.
type Options struct {
	Labels   bool // Sample.Labels is set; otherwise it is nil
	Creators bool // Sample.Creator is set; otherwise it is 0
	Objects  bool // frames of waits have the numbers of objects; otherwise their line is 0
	// Markers says that samples that stand for no time are yielded too, with Sample.Marker, that
	// times are as they are, and that none is yielded with NotSeen: for what has to write all
	// samples. Then Damaged is not called: each file must be whole.
	Markers bool

	Select *Selection // only these samples; nil: all
	// Unselected says that of the selected time the other samples are yielded too, with
	// Sample.Unselected.
	Unselected bool

	// Damaged, if not nil, is called with the error of one of several files that cannot be read,
	// each time that it is found. Its samples up to there count, and those of the other files.
	Damaged func(error)

	// Queue is the number of batches of samples that are decoded before they are needed, for each
	// file that is being read. A batch takes 64 KB. 0: 128.
	Queue int

	Many bool // there are more than Many files together with those of other sources

	Context  context.Context          // ends the iteration; its cause is the error. May be nil.
	Progress func(done, total uint64) // is told the number of samples read now and then. May be nil.
}

// A Sample is a sample that stands for time. It is valid until the next one.
type Sample struct {
	Goroutine   uint64 // id; 10^12 is added to those of the second process, and so on; see Names
	Interpreter uint32 // as in tachyon.Sample
	Status      tachyon.Status
	First       bool // the first one of its goroutine in this file

	// Slot numbers the goroutines of a file from 0. With the next file the numbers begin
	// again. They are less than Source.Slots.
	Slot   uint32
	Stack  uint32  // index into Source.Stacks
	Labels *Labels // nil: none
	// Creator is an index into Source.Creators: where the goroutine was created, as far as the
	// present file says it.
	Creator uint32
	Time    uint64        // µs; the time for which the sample stands ends here
	Wall    time.Duration // how much time that is; see reader.BatchSample.Weight

	// Marker says that it stands for no time, with Options.Markers. Wall is the time since the
	// goroutine's previous sample.
	Marker bool

	// Unselected says that it is not one of Options.Select, but of the selected time.
	Unselected bool

	// NotSeen says that this is no sample, but goroutine time of a process that has none
	// (tachyon.Counts.NotSeen). These come last, one for each process, and of the sample only Stack
	// and Wall are set.
	NotSeen bool
}

// CPU returns the part of Wall that was on a CPU: all of it or nothing.
func (s *Sample) CPU() time.Duration {
	if s.Status&tachyon.OnCPU == 0 {
		return 0
	}
	return s.Wall
}

// A Stack is a frame on top of its caller's stack, as in package reader.
type Stack = reader.Stack

// A Source is files that are read as one stream.
type Source struct {
	parts []*Part
	o     Options
	many  bool // there are more than Many files

	frames   frames.Table
	stacks   []Stack
	children map[uint64]uint32 // caller << 32 | frame: the stack

	creators creatorNumbers
	objects  objectNumbers
	names    Names
	present  int // index into parts

	metadata  *tachyon.Metadata
	end       uint64 // µs
	count     int    // goroutines
	slotCount int

	chooser *chooser // nil: all samples count
}

// New prepares the reading of files. It reads what they say about themselves and puts them in
// order.
func New(files []File, o Options) (*Source, error) {
	s := &Source{o: o, many: o.Many || len(files) > Many}
	if len(files) < 2 || o.Markers {
		o.Damaged, s.o.Damaged = nil, nil
	}
	var damaged []error
	for _, f := range files {
		p, err := newPart(f)
		if err != nil {
			if err = named(f, err); o.Damaged == nil {
				return nil, err
			}
			damaged = append(damaged, err)
			continue
		}
		s.compact(f)
		s.parts = append(s.parts, p)
	}
	if len(s.parts) == 0 {
		return nil, errors.Join(damaged...)
	}
	for _, err := range damaged {
		o.Damaged(err)
	}
	arrange(s.parts)
	s.names = newNames(s.parts)
	s.metadata = s.join()
	return s, s.choose()
}

// Damage returns an error of one of several files, or nil if the error was passed to
// Options.Damaged.
func (s *Source) Damage(err error) error {
	if err == nil || s.o.Damaged == nil || s.o.Context != nil && s.o.Context.Err() != nil {
		return err
	}
	s.o.Damaged(err)
	return nil
}

// Strange returns the names of the files that say nothing of a session although others do. Then
// Metadata has no session.
func (s *Source) Strange() (names []string) {
	for _, p := range s.parts {
		if p.Metadata.Session == nil {
			names = append(names, p.File.Name)
		}
	}
	if len(names) == len(s.parts) {
		return nil
	}
	return names
}

// Many is the number of files above which the tables of those that are not being read are not kept
// in memory.
const Many = 32

// compact frees the memory of a file that is not being read, if there are many.
func (s *Source) compact(f File) {
	if s.many {
		f.Stream.Compact()
	}
}

// Release frees the memory of what was read. Numbers of frames and stacks are not valid any more.
func (s *Source) Release() {
	s.frames, s.stacks, s.children = frames.Table{}, nil, nil
	for _, p := range s.parts {
		s.compact(p.File)
	}
}

// Header returns the header of the whole: the start of the first file, or of the time that is
// selected, and the interval. Nothing else in it is set.
func (s *Source) Header() tachyon.Header {
	h := tachyon.Header{Layout: tachyon.Document, Start: s.parts[0].Header.Start, Interval: s.parts[0].Header.Interval}
	if s.chooser != nil {
		h.Start += s.chooser.from
	}
	return h
}

// Frames returns the frames so far, by number.
func (s *Source) Frames() []tachyon.Frame { return s.frames.List() }

// Stacks returns the stacks so far. Number 0 has no frames. Equal stacks of all files have the same
// number.
func (s *Source) Stacks() []Stack { return s.stacks }

// AppendStack appends the frames of a stack, innermost first.
func (s *Source) AppendStack(list []uint32, stack uint32) []uint32 {
	for ; stack != 0; stack = s.stacks[stack].Caller {
		list = append(list, s.stacks[stack].Frame)
	}
	return list
}

// Metadata returns what the files say about themselves, without goroutines and objects. Durations
// count only after all samples were read.
func (s *Source) Metadata() *tachyon.Metadata { return s.metadata }

// Goroutines returns the number of goroutines with samples, after all were read.
func (s *Source) Goroutines() int { return s.count }

// End returns the time of the latest sample in µs since the start of the header, after all were
// read.
func (s *Source) End() uint64 { return s.end }

// Selects reports whether samples are left out, or marked as unselected, for another reason than
// their time.
func (s *Source) Selects() bool { return s.chooser != nil && s.chooser.chooses() }

// Limit returns the time at which the selected time ends, in µs since the start of the header. It
// is MaxUint64 if all time is selected.
func (s *Source) Limit() uint64 {
	if s.chooser == nil || s.chooser.to == math.MaxUint64 {
		return math.MaxUint64
	}
	return s.chooser.to - s.chooser.from
}

// SelectsStates reports whether samples are left out because of their state, so that those of a
// goroutine do not show all that it does.
func (s *Source) SelectsStates() bool {
	return s.o.Select != nil && len(s.o.Select.States)+len(s.o.Select.Peers) > 0
}

// File returns the file of the present sample and its number, from 0 in order of time.
func (s *Source) File() (int, File) { return s.present, s.parts[s.present].File }

// FileSession returns what is known of the session in the present file, nil if nothing is. It must
// not be changed.
func (s *Source) FileSession() *tachyon.Session { return s.parts[s.present].Metadata.Session }

// Label returns the value of a label of the present sample's goroutine, and whether it has one: its
// own label, if Options.Labels is set, or else that of its process. See ProcessLabel.
func (s *Source) Label(own *Labels, key string) (value string, ok bool) {
	if own != nil {
		if value, ok = own.Get(key); ok {
			return value, ok
		}
	}
	if session := s.parts[s.present].Metadata.Session; session != nil {
		return ProcessLabel(session, key)
	}
	return "", false
}

// Goroutine returns the id in the stream of a goroutine, given its id in the present file.
func (s *Source) Goroutine(inFile uint64) uint64 {
	if len(s.parts) == 1 {
		return inFile
	}
	return s.names.ID(s.parts[s.present].Process, inFile)
}

// GoroutineInFile returns the id that a goroutine of the stream has in its file.
func GoroutineInFile(id uint64) uint64 { return id % apart }

// Slots returns the number of slots of the present file so far.
func (s *Source) Slots() int { return s.slotCount }

// mostSlots returns about how many slots a file has at most. It is no bound.
func mostSlots(p *Part) int {
	return int(min(int64(p.Header.Threads), 1<<20, p.Stream.Size()/4)) // a small file may claim to have many
}

// Single returns the stream of the only file, nil if there are several.
func (s *Source) Single() reader.Stream {
	if len(s.parts) > 1 {
		return nil
	}
	return s.parts[0].Stream
}

// Files returns the number of files.
func (s *Source) Files() int { return len(s.parts) }

// object returns the number in the stream of an object of a file.
func (s *Source) object(p *Part, number int32) int32 {
	switch {
	case !s.o.Objects:
		return 0
	case len(s.parts) == 1:
		return number
	}
	return s.objects.number(p.Process, number)
}

// Synthetic returns the stack of a function that is not in the files, such as "[idle]".
func (s *Source) Synthetic(function string) uint32 {
	return s.push(0, s.frames.Intern(tachyon.Frame{Func: function}))
}

// push returns the stack with a frame on top of another stack.
func (s *Source) push(caller, frame uint32) uint32 {
	key := uint64(caller)<<32 | uint64(frame)
	n, ok := s.children[key]
	if !ok {
		n = uint32(len(s.stacks))
		s.children[key] = n
		s.stacks = append(s.stacks, Stack{Caller: caller, Frame: frame, Depth: s.stacks[caller].Depth + 1})
	}
	return n
}
