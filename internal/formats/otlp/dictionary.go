package otlp

import (
	"strings"

	"github.com/gotach/profiler/internal/formats/protobuf"
	"github.com/gotach/profiler/internal/profile"
)

// A dictionary has the tables that the profiles of a message share. The first entry of each is the
// zero value.
type dictionary struct {
	strings    table[string]
	functions  table[function]
	locations  table[uint32] // by number of the frame + 1
	stacks     table[string] // by the bytes of the locations' numbers
	attributes table[attribute]
	links      table[[24]byte]

	latest      []uint32 // the frames of the latest stack
	latestStack int32
	m, list     []byte
}

// A table numbers values. Its bytes are those of the message's field.
type table[K comparable] struct {
	number map[K]int32
	b      []byte
}

func (t *table[K]) reset() {
	if t.number == nil {
		t.number = map[K]int32{}
	}
	clear(t.number)
	t.b = t.b[:0]
}

type function struct{ name, file string }

type attribute struct {
	key string
	value
}

// A value is that of an attribute.
type value struct {
	kind int // field number of the message AnyValue
	text string
	n    int64
}

var yes = value{kind: anyBool, n: 1}

func text(s string) value { return value{kind: anyString, text: s} }
func whole(n int64) value { return value{kind: anyInt, n: n} }

// The numbers of fields.
const (
	dataResources  = 1
	dataDictionary = 2

	resourceResource  = 1
	resourceScopes    = 2
	resourceAttribute = 1

	scopeScope    = 1
	scopeProfiles = 2
	scopeName     = 1

	profileType       = 1
	profileSamples    = 2
	profileTime       = 3
	profileDuration   = 4
	profilePeriodType = 5
	profilePeriod     = 6
	profileID         = 7

	sampleStack      = 1
	sampleAttributes = 2
	sampleLink       = 3
	sampleValues     = 4

	dictMappings   = 1
	dictLocations  = 2
	dictFunctions  = 3
	dictLinks      = 4
	dictStrings    = 5
	dictAttributes = 6
	dictStacks     = 7

	locationMapping    = 1
	locationLines      = 3
	locationAttributes = 4
	lineFunction       = 1
	lineLine           = 2

	functionName   = 1
	functionSystem = 2
	functionFile   = 3
	functionStart  = 4

	mappingStart      = 1
	mappingLimit      = 2
	mappingFile       = 4
	mappingAttributes = 5

	anyString = 1
	anyBool   = 2
	anyInt    = 3
)

func (d *dictionary) reset() {
	d.strings.reset()
	d.functions.reset()
	d.locations.reset()
	d.stacks.reset()
	d.attributes.reset()
	d.links.reset()
	d.latest, d.latestStack = nil, 0
	d.text("")
	d.functions.b = protobuf.Message(d.functions.b, dictFunctions, "")
	d.locations.b = protobuf.Message(d.locations.b, dictLocations, "")
	d.stacks.b = protobuf.Message(d.stacks.b, dictStacks, "")
	d.attributes.b = protobuf.Message(d.attributes.b, dictAttributes, "")
	// Some receivers want the lengths of real ids here.
	zero := protobuf.Message(protobuf.Message(nil, 1, make([]byte, 16)), 2, make([]byte, 8))
	d.links.b = protobuf.Message(d.links.b, dictLinks, zero)
}

// size returns the number of bytes of all tables.
func (d *dictionary) size() int {
	return len(d.strings.b) + len(d.functions.b) + len(d.locations.b) + len(d.stacks.b) + len(d.attributes.b) + len(d.links.b)
}

// text returns the number of a text.
func (d *dictionary) text(s string) uint64 {
	n, ok := d.strings.number[s]
	if !ok {
		n = int32(len(d.strings.number))
		d.strings.number[s] = n
		d.strings.b = protobuf.Message(d.strings.b, dictStrings, utf8(s))
	}
	return uint64(n)
}

// utf8 returns a text as UTF-8.
func utf8(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// attribute returns the number of an attribute.
func (d *dictionary) attribute(key string, v value) int32 {
	a := attribute{key, v}
	n, ok := d.attributes.number[a]
	if !ok {
		n = int32(len(d.attributes.number)) + 1
		d.attributes.number[a] = n
		m := protobuf.Number(nil, 1, d.text(key))
		d.attributes.b = protobuf.Message(d.attributes.b, dictAttributes, protobuf.Message(m, 2, v.any()))
	}
	return n
}

// any returns the message AnyValue of a value.
func (v value) any() []byte {
	if v.kind == anyString {
		return protobuf.Message(nil, anyString, utf8(v.text))
	}
	return protobuf.Varint(protobuf.Varint(nil, uint64(v.kind)<<3), uint64(v.n)) // also if it is 0
}

// link returns the number of a link: the 16 bytes of a trace's id and the 8 bytes of a span's.
func (d *dictionary) link(l [24]byte) int32 {
	n, ok := d.links.number[l]
	if !ok {
		n = int32(len(d.links.number)) + 1
		d.links.number[l] = n
		d.links.b = protobuf.Message(d.links.b, dictLinks, protobuf.Message(protobuf.Message(nil, 1, l[:16]), 2, l[16:]))
	}
	return n
}

// stack returns the number of a stack.
func (d *dictionary) stack(p *profile.Profile, stack []uint32) int32 {
	if len(stack) == 0 {
		return 0
	}
	if len(stack) == len(d.latest) && &stack[0] == &d.latest[0] {
		return d.latestStack
	}
	d.list = d.list[:0]
	for _, frame := range stack {
		d.list = protobuf.Varint(d.list, uint64(d.location(p, frame)))
	}
	n, ok := d.stacks.number[string(d.list)]
	if !ok {
		n = int32(len(d.stacks.number)) + 1
		d.stacks.number[string(d.list)] = n
		d.m = protobuf.Message(d.m[:0], 1, d.list)
		d.stacks.b = protobuf.Message(d.stacks.b, dictStacks, d.m)
	}
	d.latest, d.latestStack = stack, n
	return n
}

// location returns the number of a frame's location.
func (d *dictionary) location(p *profile.Profile, frame uint32) int32 {
	n, ok := d.locations.number[frame]
	if ok {
		return n
	}
	n = int32(len(d.locations.number)) + 1
	d.locations.number[frame] = n
	f := &p.Frames[frame]
	line := protobuf.Number(protobuf.Number(nil, lineFunction, uint64(d.function(f, p.StartLine(frame)))), lineLine, uint64(max(f.Line, 0)))
	var m []byte
	if f.File != "" { // no wait
		m = protobuf.Number(m, locationMapping, 1)
	}
	m = protobuf.Message(m, locationLines, line)
	if f.File != "" {
		m = protobuf.Message(m, locationAttributes, protobuf.Varint(nil, uint64(d.attribute("profile.frame.type", text("go")))))
	}
	d.locations.b = protobuf.Message(d.locations.b, dictLocations, m)
	return n
}

// function returns the number of a frame's function.
func (d *dictionary) function(f *profile.Frame, start int32) int32 {
	key := function{f.Func, f.File}
	n, ok := d.functions.number[key]
	if ok {
		return n
	}
	n = int32(len(d.functions.number)) + 1
	d.functions.number[key] = n
	name := d.text(f.Func)
	m := protobuf.Number(protobuf.Number(nil, functionName, name), functionSystem, name)
	m = protobuf.Number(protobuf.Number(m, functionFile, d.text(f.File)), functionStart, uint64(max(start, 0)))
	d.functions.b = protobuf.Message(d.functions.b, dictFunctions, m)
	return n
}
