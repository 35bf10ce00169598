package tachyon

import (
	"reflect"
	"time"
)

// Metadata is what gotach adds to a file beyond samples. Files of other writers have none.
//
// What grows with the program's life is in the record section: goroutines with their labels,
// objects, and the counts so far. The rest is stored as JSON objects in strings that no frame uses.
// The value of an object's first key, "gotach", is its kind: "session" (one), "pcs" and "records"
// (at most one each) and "checksum" (one, the last string). Files of early versions have no record
// section, but any number of objects of the kind "goroutines", each with a part of the list.
type Metadata struct {
	Session    *Session // nil: gotach's sampler did not write the file
	Goroutines []Goroutine
	Objects    []Object  // what the goroutines of the file's samples wait for; ascending numbers
	PCs        *LeafPCs  // nil: none
	Checksum   *Checksum // nil: none
}

// The kinds of metadata.
const (
	KindSession    = "session"
	KindGoroutines = "goroutines"
	KindPCs        = "pcs"
	KindRecords    = "records" // where the record section is: a Section
	KindChecksum   = "checksum"
)

// NotStopped is the Error of a session whose program ended without Stop, for example by a signal.
// It is no error of the session.
const NotStopped = "the session was not stopped"

// A Session describes the profiled program, the machine and how sampling went. Durations
// are in nanoseconds in the file.
type Session struct {
	Program    string            `json:"program"`
	GoVersion  string            `json:"go_version"`
	GOOS       string            `json:"goos"`
	GOARCH     string            `json:"goarch"`
	GOMAXPROCS int               `json:"gomaxprocs"`
	CPUs       float64           `json:"cpus,omitempty"` // that the process may use, by affinity and by the quota of its cgroups; 0: unknown
	Module     string            `json:"module,omitempty"`
	Version    string            `json:"version,omitempty"`
	VCS        map[string]string `json:"vcs,omitempty"` // vcs.revision and the like, from the build info
	BuildID    string            `json:"build_id,omitempty"`
	Executable string            `json:"executable,omitempty"`
	Host       string            `json:"host"`
	PID        int               `json:"pid"`
	// Service is the name of the service that the process is one of, and ServiceVersion its
	// version, as they were given to the session. Both may be "".
	Service        string `json:"service,omitempty"`
	ServiceVersion string `json:"service_version,omitempty"`

	Start    time.Time     `json:"start"` // wall clock
	Duration time.Duration `json:"duration_ns"`

	Source       string  `json:"source"`                  // native or portable
	SourceReason string  `json:"source_reason,omitempty"` // why the preferred source was not used
	Rate         int     `json:"rate"`                    // ticks a second asked for
	RateReached  float64 `json:"rate_reached"`            // ticks a second taken
	Budget       float64 `json:"budget_percent"`          // of the CPU that the process may use

	// System says that waits of the runtime's own goroutines were sampled too. Otherwise only
	// their samples with OnCPU count; the others are markers of where CPU time begins.
	System bool `json:"system,omitempty"`
	// Markers says that the file follows the rule of System, and that samples of the
	// interpreter Process without OnCPU are markers too. In files of early versions it is
	// false, and all samples count.
	Markers bool `json:"markers,omitempty"`
	Counts
	// ThrottledOf is set in what a selection of time says: Throttled is not known for the part, and
	// is that of this longer time, of the files that the part is in. 0: it is that of Duration.
	ThrottledOf time.Duration `json:"throttled_of_ns,omitempty"`

	// Instant says that the samples are those of one instant, as a core file has it: each goroutine
	// has one, of 1 µs, which counts it. No time was measured.
	Instant bool `json:"instant,omitempty"`

	// Objects says for which waits the source knows the object: AllObjects, or OnlyChannels with
	// Go 1.25. It is "" if it knows none. See [Object].
	Objects string `json:"objects,omitempty"`
	// Kept says why the file is kept apart from the rotation: the program called Session.Keep. "":
	// it did not.
	Kept string `json:"kept,omitempty"`
	// ObjectsUnnamed says why objects in variables of the program have no Symbol; "": they have.
	ObjectsUnnamed string `json:"objects_unnamed,omitempty"`

	// Stops says that the source counts how often goroutines stop running. See [Stops].
	Stops bool `json:"stops,omitempty"`
	// FarEndsUnknown says why the native source does not know which connections and files
	// goroutines wait for; "": it knows, or another source was used.
	FarEndsUnknown string `json:"far_ends_unknown,omitempty"`

	// Leaks are the goroutines that the runtime could prove to be leaked when the session was
	// stopped. It is nil if the runtime was not asked.
	Leaks *ProvenLeaks `json:"leaks,omitempty"`

	Error string `json:"error,omitempty"` // the session's first error, or NotStopped

	// Part is the file's number within a session of several files, from 1. SessionStart is
	// the start of the first file. Both are zero if the session has one file. Start,
	// Duration and all counts are those of this file.
	Part         int       `json:"part,omitempty"`
	SessionStart time.Time `json:"session_start,omitzero"`
}

// ProvenLeaks are goroutines that wait for something that nothing else can reach, so that they wait
// forever. The runtime of Go 1.27 finds them.
type ProvenLeaks struct {
	Unavailable string       `json:"unavailable,omitempty"` // why nothing is known
	Count       int          `json:"count"`                 // of goroutines
	Groups      []ProvenLeak `json:"groups,omitempty"`      // those with the most goroutines first; at most 500
}

// A ProvenLeak is leaked goroutines with one stack.
type ProvenLeak struct {
	Count  int         `json:"count"`
	Frames []LeakFrame `json:"frames"` // innermost first, without the runtime's
}

// A LeakFrame is a frame of a leaked goroutine.
type LeakFrame struct {
	Func string `json:"func"`
	File string `json:"file"`
	Line int32  `json:"line"`
}

// Marker reports whether a sample of a session is a marker, which stands for no time: the weight of
// the thread's next sample begins there. Markers are the samples without OnCPU of the interpreter
// Process, and of Runtime if the session does not have System. Only files whose session has Markers
// have them. s may be nil.
func (s *Session) Marker(interpreter uint32, status Status) bool {
	return s != nil && s.Markers && interpreter != User && status&OnCPU == 0 && (interpreter == Process || !s.System)
}

// Counts are the statistics of a session, or of a part of a session.
type Counts struct {
	Cost         time.Duration `json:"cost_ns"`       // CPU time that sampling took on all cores, as the source measured it
	TicksAsked   int64         `json:"ticks_asked"`   // Rate times Duration
	TicksReached int64         `json:"ticks_reached"` // ticks taken
	// Ticks that the native source left out so that the cost stays within the budget, and ticks
	// that it left out because no goroutine ran. See TicksLate.
	TicksForBudget int64 `json:"ticks_for_budget,omitempty"`
	TicksIdle      int64 `json:"ticks_idle,omitempty"`
	Samples        int64 `json:"samples"`
	Dropped        int64 `json:"dropped"`        // samples lost: there was no room, or they were torn
	Torn           int64 `json:"torn"`           // samples lost because the goroutine ran during the walk of its stack
	MaxGoroutines  int   `json:"max_goroutines"` // most goroutines alive at one tick
	// Numbers of ended goroutines and of label spans that are left out of files of early versions
	// because there were too many to store.
	GoroutinesOmitted int64 `json:"goroutines_omitted,omitempty"`
	LabelsOmitted     int64 `json:"labels_omitted,omitempty"`

	// How often the program, or C code in it, set the native source's signal to be ignored
	// or to its default. Each time the source set its handler again, but for up to about
	// 40 ms ticks have no samples of running goroutines.
	SignalTaken int64 `json:"signal_taken,omitempty"`

	// Number of goroutines in the runtime's list, with ended ones, beyond the number that
	// the native source follows. The profile has samples of these goroutines only from
	// times when they ran.
	GoroutinesUntracked int64 `json:"goroutines_untracked,omitempty"`

	// TicksRefused counts ticks that were not taken because they would have stopped the
	// program for longer than MaxPause. Blind is the time without samples that this
	// caused. The weight of a goroutine's next sample includes that time.
	TicksRefused int64         `json:"ticks_refused,omitempty"`
	Blind        time.Duration `json:"blind_ns,omitempty"`

	// NotSeen is time of goroutines, all added up, that no sample stands for: they ended before the
	// source read their stacks, or they are untracked. Goroutines that began and ended between two
	// ticks are not in it: samples of others stand for them. The native source knows the number of
	// goroutines at each tick; what its integral over time has more than the samples is in it too.
	NotSeen time.Duration `json:"not_seen_ns,omitempty"`

	// Unwritten is the time for which samples could not be written, because the disk was full or
	// failed. These samples are in Dropped. It is at the end of the file: the session goes on in
	// the next one.
	Unwritten time.Duration `json:"unwritten_ns,omitempty"`

	// ThrottledPeriods counts the periods in which the kernel kept the process's cgroup from
	// running because it had used up its CPU quota. Throttled is the time for which that lasted,
	// as the cgroup's cpu.stat says. The whole cgroup counts, also other processes in it.
	ThrottledPeriods int64         `json:"throttled_periods,omitempty"`
	Throttled        time.Duration `json:"throttled_ns,omitempty"`

	// ProcessCPU is the CPU time that the process used, user and system, by getrusage.
	ProcessCPU time.Duration `json:"process_cpu_ns,omitempty"`

	// CPUAtTicks is the CPU time of threads that have no timer on their CPU clock, because the
	// kernel refuses one. It is at the places where ticks found the threads: some of it at places
	// where they waited.
	CPUAtTicks time.Duration `json:"cpu_at_ticks_ns,omitempty"`
}

// TicksLate returns how many ticks came too late: those that no other count has.
func (c Counts) TicksLate() int64 {
	return max(0, c.TicksAsked-c.TicksReached-c.TicksForBudget-c.TicksIdle-c.TicksRefused)
}

// Plus returns the sum of the counts of two parts. MaxGoroutines is the larger one.
func (c Counts) Plus(d Counts) Counts {
	c.MaxGoroutines = max(c.MaxGoroutines, d.MaxGoroutines)
	return c.add(d, 1)
}

// Since returns the difference from the counts at an earlier time of the same session.
// MaxGoroutines stays the same.
func (c Counts) Since(earlier Counts) Counts { return c.add(earlier, -1) }

// add adds d so many times, except MaxGoroutines. All fields are whole numbers.
func (c Counts) add(d Counts, times int64) Counts {
	most := c.MaxGoroutines
	sum, by := reflect.ValueOf(&c).Elem(), reflect.ValueOf(d)
	for i := range by.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + times*by.Field(i).Int())
	}
	c.MaxGoroutines = most
	return c
}

// A Goroutine has the facts about a goroutine that are not in its samples. Times are in µs
// since the file's start.
type Goroutine struct {
	ID        uint64 `json:"id"`
	Parent    uint64 `json:"parent,omitempty"`     // 0: unknown
	CreatedBy string `json:"created_by,omitempty"` // function
	CreatedAt string `json:"created_at,omitempty"` // file:line
	First     uint64 `json:"first_us"`
	Last      uint64 `json:"last_us"`
	// FirstWeight is the weight in µs of the goroutine's first sample in the file; 0 means
	// one interval. It is the time since the goroutine's previous sample, in an earlier
	// file, or since the sampler's last visit to the place where it found the goroutine.
	FirstWeight uint64      `json:"first_weight_us,omitempty"`
	Labels      []LabelSpan `json:"labels,omitempty"` // in order of From
}

// A LabelSpan has the pprof labels of a goroutine from a time on, until the next span
// begins.
type LabelSpan struct {
	From   uint64            `json:"from_us"` // µs since the file's start
	Labels map[string]string `json:"labels"`  // empty: no labels from this time on
}

// LeafPCs counts the samples by their innermost program counters, for formats that have
// only addresses. Addresses are link-time addresses: the load bias is subtracted. 1 is
// subtracted from return addresses.
type LeafPCs struct {
	TextStart uint64   `json:"text_start"` // link-time address of the executable's .text
	TextSize  uint64   `json:"text_size"`  // bytes
	PCs       []LeafPC `json:"pcs"`        // ascending by Addr
}

// A LeafPC is one address and the number of samples in which it was the innermost one.
type LeafPC struct {
	Addr uint64 `json:"a"`
	CPU  uint32 `json:"c,omitempty"` // samples on CPU
	Wall uint32 `json:"w"`           // all samples

	// The total weights of these samples, in µs. Waiting goroutines are sampled less often
	// than running ones, so counts alone would understate them. Files of early versions
	// have no weights.
	CPUTime  uint64 `json:"ct,omitempty"`
	WallTime uint64 `json:"wt,omitempty"`
}

// A Checksum is the CRC-32C of the file's sample region as stored, from the end of the
// header to the start of the string table.
type Checksum struct {
	CRC32C uint32 `json:"crc32c"`
}
