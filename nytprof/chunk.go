package nytprof

import "strconv"

// A Chunk is one element of a file: a pointer to one of this package's chunk
// types, which are named as Devel::NYTProf::ReadStream names them.
type Chunk interface {
	// Tag is the chunk's name in ReadStream, such as "TIME_LINE".
	Tag() string

	decode(*decoder)        // what follows the first byte
	encode(b []byte) []byte // all of it, appended to b
	args(*jsonArray)        // as a callback of ReadStream gets them
}

// Version is the first line of a file.
type Version struct{ Major, Minor uint32 }

// Comment is text to be ignored.
type Comment struct{ Text string } // without the newline

// Attribute is a fact of the run, such as ticks_per_sec. It may stand anywhere.
type Attribute struct{ Key, Value string }

// Option is a setting that the profiler ran with.
type Option struct{ Key, Value string }

// StartDeflate says that all further chunks are compressed in the file.
type StartDeflate struct {
	Level int // for a Writer: 1 to 9, or 0 for 6. Not in the file; a Reader leaves it 0.
}

// PIDStart says that a process started to run under the profiler.
type PIDStart struct {
	PID, Parent uint32
	Time        float64 // seconds since the epoch
}

// PIDEnd says that it is done.
type PIDEnd struct {
	PID  uint32
	Time float64 // seconds since the epoch
}

// NewFID gives a file, or a string eval, its number. Numbers are dense from 1.
type NewFID struct {
	FID               uint32
	EvalFID, EvalLine uint32 // where the eval was; 0 for a file
	Flags             Flags
	Size, Mtime       uint32 // perl writes zeroes
	Name              String
}

// Flags say of a file how perl came to it.
type Flags uint32

// The flags.
const (
	FlagPMC        Flags = 1 << iota // a .pmc file
	FlagViaStmt                      // known through a statement
	FlagViaSub                       // known through a sub
	FlagAutosplit                    // made by AutoSplit
	FlagHasSource                    // its source is in the file
	FlagSaveSource                   // its source is to be saved
	FlagAlias                        // another name of a file
	FlagFake                         // no file at all
	FlagEval                         // a string eval
)

// TimeLine says that a statement ran: how long and where.
type TimeLine struct {
	Ticks     int32
	FID, Line uint32
}

// TimeBlock is a TimeLine with the lines of the enclosing block and sub.
type TimeBlock struct {
	Ticks              int32
	FID, Line          uint32
	BlockLine, SubLine uint32
}

// Discount says that the next TimeLine or TimeBlock is the rest of a statement
// that was counted before, and is not to be counted again.
type Discount struct{}

// SubEntry says that a sub was called, and from where.
type SubEntry struct{ CallerFID, CallerLine uint32 }

// SubReturn says that a call ended. Calls end in post-order.
type SubReturn struct {
	Depth      uint32  // of the call, 1 for the outermost
	Incl, Excl float64 // ticks
	Sub        String
}

// SrcLine is a line of source.
type SrcLine struct {
	FID, Line uint32
	Text      String // with its newline
}

// SubInfo says where a sub is. First and Last are 0 for one written in C.
type SubInfo struct {
	FID, First, Last uint32
	Name             String
}

// SubCallers sums up the calls of one sub from one line of another.
type SubCallers struct {
	FID, Line, Count uint32
	Incl, Excl, Reci float64 // seconds; Reci is that of inner calls of a recursion, not in Incl
	Depth            uint32  // of the deepest recursion
	Called, Caller   String
}

func (*Version) Tag() string      { return "VERSION" }
func (*Comment) Tag() string      { return "COMMENT" }
func (*Attribute) Tag() string    { return "ATTRIBUTE" }
func (*Option) Tag() string       { return "OPTION" }
func (*StartDeflate) Tag() string { return "START_DEFLATE" }
func (*PIDStart) Tag() string     { return "PID_START" }
func (*PIDEnd) Tag() string       { return "PID_END" }
func (*NewFID) Tag() string       { return "NEW_FID" }
func (*TimeLine) Tag() string     { return "TIME_LINE" }
func (*TimeBlock) Tag() string    { return "TIME_BLOCK" }
func (*Discount) Tag() string     { return "DISCOUNT" }
func (*SubEntry) Tag() string     { return "SUB_ENTRY" }
func (*SubReturn) Tag() string    { return "SUB_RETURN" }
func (*SrcLine) Tag() string      { return "SRC_LINE" }
func (*SubInfo) Tag() string      { return "SUB_INFO" }
func (*SubCallers) Tag() string   { return "SUB_CALLERS" }

func (*Version) decode(*decoder) {} // Reader.version does
func (c *Version) encode(b []byte) []byte {
	b = strconv.AppendUint(append(b, magic...), uint64(c.Major), 10)
	return append(strconv.AppendUint(append(b, ' '), uint64(c.Minor), 10), '\n')
}

func (c *Comment) decode(d *decoder)        { c.Text = d.line() }
func (c *Comment) encode(b []byte) []byte   { return append(append(append(b, '#'), c.Text...), '\n') }
func (c *Attribute) decode(d *decoder)      { c.Key, c.Value = d.keyValue() }
func (c *Attribute) encode(b []byte) []byte { return appendKeyValue(b, ':', c.Key, c.Value) }
func (c *Option) decode(d *decoder)         { c.Key, c.Value = d.keyValue() }
func (c *Option) encode(b []byte) []byte    { return appendKeyValue(b, '!', c.Key, c.Value) }

func appendKeyValue(b []byte, tag byte, key, value string) []byte {
	b = append(append(append(b, tag), key...), '=')
	return append(append(b, value...), '\n')
}

func (c *StartDeflate) decode(*decoder)        {}
func (c *StartDeflate) encode(b []byte) []byte { return append(b, 'z') }

func (c *PIDStart) decode(d *decoder) { c.PID, c.Parent, c.Time = d.u32(), d.u32(), d.nv() }
func (c *PIDStart) encode(b []byte) []byte {
	return appendNV(appendU32(appendU32(append(b, 'P'), c.PID), c.Parent), c.Time)
}

func (c *PIDEnd) decode(d *decoder) { c.PID, c.Time = d.u32(), d.nv() }
func (c *PIDEnd) encode(b []byte) []byte {
	return appendNV(appendU32(append(b, 'p'), c.PID), c.Time)
}

func (c *NewFID) decode(d *decoder) {
	c.FID, c.EvalFID, c.EvalLine = d.u32(), d.u32(), d.u32()
	c.Flags, c.Size, c.Mtime = Flags(d.u32()), d.u32(), d.u32()
	c.Name = d.str(false)
}

func (c *NewFID) encode(b []byte) []byte {
	b = appendU32(appendU32(appendU32(append(b, '@'), c.FID), c.EvalFID), c.EvalLine)
	b = appendU32(appendU32(appendU32(b, uint32(c.Flags)), c.Size), c.Mtime)
	return appendStr(b, c.Name)
}

func (c *TimeLine) decode(d *decoder) { c.Ticks, c.FID, c.Line = int32(d.u32()), d.u32(), d.u32() }
func (c *TimeLine) encode(b []byte) []byte {
	return appendU32(appendU32(appendU32(append(b, '+'), uint32(c.Ticks)), c.FID), c.Line)
}

func (c *TimeBlock) decode(d *decoder) {
	c.Ticks, c.FID, c.Line = int32(d.u32()), d.u32(), d.u32()
	c.BlockLine, c.SubLine = d.u32(), d.u32()
}

func (c *TimeBlock) encode(b []byte) []byte {
	b = appendU32(appendU32(appendU32(append(b, '*'), uint32(c.Ticks)), c.FID), c.Line)
	return appendU32(appendU32(b, c.BlockLine), c.SubLine)
}

func (c *Discount) decode(*decoder)        {}
func (c *Discount) encode(b []byte) []byte { return append(b, '-') }

func (c *SubEntry) decode(d *decoder) { c.CallerFID, c.CallerLine = d.u32(), d.u32() }
func (c *SubEntry) encode(b []byte) []byte {
	return appendU32(appendU32(append(b, '>'), c.CallerFID), c.CallerLine)
}

func (c *SubReturn) decode(d *decoder) {
	c.Depth, c.Incl, c.Excl, c.Sub = d.u32(), d.nv(), d.nv(), d.str(true)
}

func (c *SubReturn) encode(b []byte) []byte {
	return appendStr(appendNV(appendNV(appendU32(append(b, '<'), c.Depth), c.Incl), c.Excl), c.Sub)
}

func (c *SrcLine) decode(d *decoder) { c.FID, c.Line, c.Text = d.u32(), d.u32(), d.str(false) }
func (c *SrcLine) encode(b []byte) []byte {
	return appendStr(appendU32(appendU32(append(b, 'S'), c.FID), c.Line), c.Text)
}

func (c *SubInfo) decode(d *decoder) {
	c.FID, c.Name, c.First, c.Last = d.u32(), d.str(true), d.u32(), d.u32()
}

func (c *SubInfo) encode(b []byte) []byte {
	return appendU32(appendU32(appendStr(appendU32(append(b, 's'), c.FID), c.Name), c.First), c.Last)
}

func (c *SubCallers) decode(d *decoder) {
	c.FID, c.Line, c.Caller, c.Count = d.u32(), d.u32(), d.str(true), d.u32()
	c.Incl, c.Excl, c.Reci = d.nv(), d.nv(), d.nv()
	c.Depth, c.Called = d.u32(), d.str(true)
}

func (c *SubCallers) encode(b []byte) []byte {
	b = appendStr(appendU32(appendU32(append(b, 'c'), c.FID), c.Line), c.Caller)
	b = appendNV(appendNV(appendNV(appendU32(b, c.Count), c.Incl), c.Excl), c.Reci)
	return appendStr(appendU32(b, c.Depth), c.Called)
}
