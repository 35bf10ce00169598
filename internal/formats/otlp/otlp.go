// Package otlp writes profiles as OpenTelemetry's ProfilesData, a protocol buffer message of the
// package opentelemetry.proto.profiles.v1development of version 1.11 of the protocol. It has the
// same fields as a request to an OTLP receiver. The protocol is in alpha: the version in the
// package's name will change.
//
// Wall time and CPU time are two profiles that share the dictionary. CPU time is left out if there
// is none. Samples are sums: one for each stack, state and set of labels.
//
// # Attributes
//
// A sample has these attributes, besides the goroutine's labels:
//
//   - go.goroutine.state: running, no core, runnable, syscall, syscall on CPU, C, C on CPU,
//     waiting, or not seen. There is no convention yet.
//   - go.goroutine.wait_reason: what a waiting goroutine waits for, in the runtime's words, such as
//     chan receive.
//   - go.goroutine.system: true for goroutines of the runtime and CPU time that no goroutine used.
//   - thread.id: the goroutine's id. Only on demand: there may be any number of them.
//
// A label with one of these names gets the prefix "label.". The labels trace_id and span_id of the
// usual 32 and 16 hexadecimal digits become the sample's link. Texts that are not UTF-8 are made
// so, since receivers refuse the message otherwise.
//
// A waiting goroutine's innermost frame is the reason in brackets, as in all formats: a function
// without a file. The other frames have the attribute profile.frame.type with the value go.
//
// The resource has what is known about the process: service.name, service.version,
// service.instance.id, host.name, host.arch, os.type, process.pid, process.executable.path,
// process.runtime.name, process.runtime.version, vcs.ref.head.revision and vcs.modified.
package otlp

import (
	"encoding/hex"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/formats/protobuf"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// An About is what a message says about its profiles as a whole.
type About struct {
	Program        string           // if there is no session
	Session        *tachyon.Session // may be nil
	Start          time.Time
	Duration       time.Duration
	Interval       time.Duration // between two ticks; 0 if unknown
	WallID, CPUID  [16]byte      // profile ids; zero: none
	Service        string        // service.name; "": the session's label service
	ServiceVersion string        // service.version; "": the session's label version
	Resource       [][2]string   // more attributes of the resource; they replace others of the same name
}

// Write writes a profile.
func Write(w io.Writer, p *profile.Profile) error {
	e := NewEncoder()
	for i := range p.Records {
		e.Add(p, &p.Records[i])
	}
	return e.write(w, p)
}

// WriteStream writes the samples of a source, which has labels. With goroutines, they are told
// apart.
func WriteStream(w io.Writer, src *stream.Source, goroutines bool) error {
	e := NewEncoder()
	e.Goroutines = goroutines
	p, err := profile.Each(src, profile.Detail{Goroutines: goroutines, Labels: true}, math.MaxInt, func(p *profile.Profile, r *profile.Record) error {
		e.Add(p, r)
		return nil
	})
	if err != nil {
		return err
	}
	return e.write(w, p)
}

func (e *Encoder) write(w io.Writer, p *profile.Profile) error {
	a := About{Program: p.Program, Start: p.Start, Duration: p.Duration, Interval: p.Interval}
	if p.Metadata != nil {
		a.Session = p.Metadata.Session
	}
	_, err := w.Write(e.Message(&a))
	return err
}

// The names of attributes of samples. See the package comment.
const (
	attrState  = "go.goroutine.state"
	attrReason = "go.goroutine.wait_reason"
	attrSystem = "go.goroutine.system"
	attrThread = "thread.id"
	ownPrefix  = "label."

	labelTrace = "trace_id"
	labelSpan  = "span_id"
)

// An Encoder makes a message of records. It keeps only what the message will have.
type Encoder struct {
	Goroutines bool // records of a goroutine have its id

	wall, cpu []byte // samples of the profiles
	records   int
	dict      dictionary
	keys      []string
	indices   []int32
	m, list   []byte
}

// NewEncoder returns an Encoder of an empty message.
func NewEncoder() *Encoder {
	e := &Encoder{}
	e.dict.reset()
	return e
}

// Reset makes the message empty.
func (e *Encoder) Reset() {
	e.wall, e.cpu, e.records = e.wall[:0], e.cpu[:0], 0
	e.dict.reset()
}

// Size returns about how long the message is, in bytes.
func (e *Encoder) Size() int { return len(e.wall) + len(e.cpu) + e.dict.size() }

// Records returns the number of records in the message.
func (e *Encoder) Records() int { return e.records }

// Add adds a record. All records between two calls of Reset must be of profiles whose frames have
// the same numbers.
func (e *Encoder) Add(p *profile.Profile, r *profile.Record) {
	if r.Wall <= 0 && r.CPU <= 0 {
		return
	}
	e.records++
	e.m = protobuf.Number(e.m[:0], sampleStack, uint64(e.dict.stack(p, r.Stack)))
	link := e.attributes(r)
	e.list = e.list[:0]
	for _, i := range e.indices {
		e.list = protobuf.Varint(e.list, uint64(i))
	}
	if len(e.list) > 0 {
		e.m = protobuf.Message(e.m, sampleAttributes, e.list)
	}
	e.m = protobuf.Number(e.m, sampleLink, uint64(link))
	head := len(e.m)
	for _, v := range [...]struct {
		into  *[]byte
		value time.Duration
	}{{&e.wall, r.Wall}, {&e.cpu, r.CPU}} {
		if v.value > 0 {
			e.m = protobuf.Message(e.m[:head], sampleValues, protobuf.Varint(e.list[:0], uint64(v.value)))
			*v.into = protobuf.Message(*v.into, profileSamples, e.m)
		}
	}
}

// attributes sets e.indices to the attributes of a record. It returns the index of its link.
func (e *Encoder) attributes(r *profile.Record) (link int32) {
	e.indices = e.indices[:0]
	add := func(key string, v value) { e.indices = append(e.indices, e.dict.attribute(key, v)) }
	switch state := r.State; state {
	case "":
	case profile.Running, profile.NoCore, profile.Runnable, profile.Syscall, profile.SyscallOnCPU, profile.InC, profile.OnCPUInC, profile.Waiting, profile.NotSeen:
		add(attrState, text(state))
	default:
		add(attrState, text(profile.Waiting))
		add(attrReason, text(state))
	}
	if r.System {
		add(attrSystem, yes)
	}
	if e.Goroutines && r.OfGoroutine() && !r.Several {
		add(attrThread, whole(int64(r.Goroutine)))
	}
	if len(r.Labels) == 0 {
		return 0
	}
	var l [24]byte
	trace, span := r.Labels[labelTrace], r.Labels[labelSpan]
	linked := len(trace) == 32 && len(span) == 16
	if linked {
		_, err := hex.Decode(l[:16], []byte(trace))
		_, err2 := hex.Decode(l[16:], []byte(span))
		linked = err == nil && err2 == nil && [16]byte(l[:16]) != [16]byte{} && [8]byte(l[16:]) != [8]byte{}
	}
	if linked {
		link = e.dict.link(l)
	}
	e.keys = e.keys[:0]
	for k := range r.Labels {
		if !linked || k != labelTrace && k != labelSpan {
			e.keys = append(e.keys, k)
		}
	}
	slices.Sort(e.keys)
	for _, k := range e.keys {
		name := k
		if k == "" || k == attrState || k == attrReason || k == attrSystem || k == attrThread || strings.HasPrefix(k, ownPrefix) {
			name = ownPrefix + k
		}
		add(name, text(r.Labels[k]))
	}
	return link
}
