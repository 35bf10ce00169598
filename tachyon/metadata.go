package tachyon

import "time"

// Metadata is what gotach adds to a file beyond samples. It is stored as JSON
// objects in strings that no frame uses. Files of other writers have none.
//
// The value of an object's first key, "gotach", is its kind: "session" (one),
// "goroutines" (any number, each with a part of the list), "pcs" (at most one)
// and "checksum" (one, the last string).
type Metadata struct {
	Session    *Session // nil: not a file of gotach's sampler
	Goroutines []Goroutine
	PCs        *LeafPCs  // nil: none
	Checksum   *Checksum // nil: none
}

// The kinds of metadata.
const (
	KindSession    = "session"
	KindGoroutines = "goroutines"
	KindPCs        = "pcs"
	KindChecksum   = "checksum"
)

// A Session says what was profiled and how well that went. Durations are in
// nanoseconds in the file.
type Session struct {
	Program    string            `json:"program"`
	GoVersion  string            `json:"go_version"`
	GOOS       string            `json:"goos"`
	GOARCH     string            `json:"goarch"`
	GOMAXPROCS int               `json:"gomaxprocs"`
	Module     string            `json:"module,omitempty"`
	Version    string            `json:"version,omitempty"`
	VCS        map[string]string `json:"vcs,omitempty"` // vcs.revision and the like, from the build info
	BuildID    string            `json:"build_id,omitempty"`
	Executable string            `json:"executable,omitempty"`
	Host       string            `json:"host"`
	PID        int               `json:"pid"`
	Start      time.Time         `json:"start"` // wall clock
	Duration   time.Duration     `json:"duration_ns"`

	Source       string  `json:"source"`                  // native or portable
	SourceReason string  `json:"source_reason,omitempty"` // why this one, where another was wanted
	Rate         int     `json:"rate"`                    // ticks a second asked for
	RateReached  float64 `json:"rate_reached"`            // ticks a second taken
	Budget       float64 `json:"budget_percent"`          // of the machine's CPU
	Counts

	Error string `json:"error,omitempty"` // what ended the session early

	// Part is the file's number within a session of several files, from 1, and
	// SessionStart is when the first one began. Start, Duration and all counts are
	// this file's own. Both are zero if the session has one file.
	Part         int       `json:"part,omitempty"`
	SessionStart time.Time `json:"session_start,omitzero"`
}

// Counts is what is counted in the course of a session, or of a part of one.
type Counts struct {
	Cost          time.Duration `json:"cost_ns"`     // CPU time of all cores that sampling took, as the source measured it
	TicksAsked    int64         `json:"ticks_asked"` // that Rate asks for in Duration
	TicksReached  int64         `json:"ticks_reached"`
	Samples       int64         `json:"samples"`
	Dropped       int64         `json:"dropped"`        // samples lost, because there was no room or they were torn
	Torn          int64         `json:"torn"`           // of these, because the goroutine moved during the walk of its stack
	MaxGoroutines int           `json:"max_goroutines"` // most that were alive at one tick
	// Goroutines that ended and are not listed, and label spans left out,
	// because there were too many to remember.
	GoroutinesOmitted int64 `json:"goroutines_omitted,omitempty"`
	LabelsOmitted     int64 `json:"labels_omitted,omitempty"`

	// How often the program, or C code in it, set the native source's signal to be ignored
	// or to its default. The source took it back, but ticks of up to some 20 ms saw no
	// goroutines that ran.
	SignalTaken int64 `json:"signal_taken,omitempty"`

	// Goroutines of the runtime's list, ended ones included, that were beyond the number
	// that is followed: there are samples of them only from when they ran.
	GoroutinesUntracked int64 `json:"goroutines_untracked,omitempty"`

	// Ticks that were not taken because they would have stopped the program for too
	// long, and for how long there are no samples therefore. A goroutine's next
	// sample has that time too.
	TicksRefused int64         `json:"ticks_refused,omitempty"`
	Blind        time.Duration `json:"blind_ns,omitempty"`
}

// Plus returns the counts of two parts together.
func (c Counts) Plus(d Counts) Counts {
	return Counts{
		Cost:              c.Cost + d.Cost,
		TicksAsked:        c.TicksAsked + d.TicksAsked,
		TicksReached:      c.TicksReached + d.TicksReached,
		Samples:           c.Samples + d.Samples,
		Dropped:           c.Dropped + d.Dropped,
		Torn:              c.Torn + d.Torn,
		MaxGoroutines:     max(c.MaxGoroutines, d.MaxGoroutines),
		GoroutinesOmitted: c.GoroutinesOmitted + d.GoroutinesOmitted,
		LabelsOmitted:     c.LabelsOmitted + d.LabelsOmitted,
		SignalTaken:       c.SignalTaken + d.SignalTaken,
		TicksRefused:      c.TicksRefused + d.TicksRefused,
		Blind:             c.Blind + d.Blind,

		GoroutinesUntracked: c.GoroutinesUntracked + d.GoroutinesUntracked,
	}
}

// Since returns what was counted since an earlier time of the same session.
// MaxGoroutines stays as it is.
func (c Counts) Since(earlier Counts) Counts {
	return Counts{
		GoroutinesUntracked: c.GoroutinesUntracked - earlier.GoroutinesUntracked,

		Cost:              c.Cost - earlier.Cost,
		TicksAsked:        c.TicksAsked - earlier.TicksAsked,
		TicksReached:      c.TicksReached - earlier.TicksReached,
		Samples:           c.Samples - earlier.Samples,
		Dropped:           c.Dropped - earlier.Dropped,
		Torn:              c.Torn - earlier.Torn,
		MaxGoroutines:     c.MaxGoroutines,
		GoroutinesOmitted: c.GoroutinesOmitted - earlier.GoroutinesOmitted,
		LabelsOmitted:     c.LabelsOmitted - earlier.LabelsOmitted,
		SignalTaken:       c.SignalTaken - earlier.SignalTaken,
		TicksRefused:      c.TicksRefused - earlier.TicksRefused,
		Blind:             c.Blind - earlier.Blind,
	}
}

// A Goroutine says what is known of a goroutine beyond its samples. Times are in µs
// since the file's start.
type Goroutine struct {
	ID        uint64 `json:"id"`
	Parent    uint64 `json:"parent,omitempty"`     // 0: unknown
	CreatedBy string `json:"created_by,omitempty"` // function
	CreatedAt string `json:"created_at,omitempty"` // file:line
	First     uint64 `json:"first_us"`
	Last      uint64 `json:"last_us"`
	// FirstWeight is the weight in µs of its first sample in the file, 0 for one
	// interval: the time since its previous sample, which is in an earlier file,
	// or since the sampler last looked at the place where it found the goroutine.
	FirstWeight uint64      `json:"first_weight_us,omitempty"`
	Labels      []LabelSpan `json:"labels,omitempty"` // in order of From
}

// FirstWeights returns the weights in µs of goroutines' first samples by goroutine
// id. Goroutines that are missing have a weight of one interval.
func (m *Metadata) FirstWeights() map[uint64]uint64 {
	weights := map[uint64]uint64{}
	for _, g := range m.Goroutines {
		if g.FirstWeight > 0 {
			weights[g.ID] = g.FirstWeight
		}
	}
	return weights
}

// A LabelSpan says which pprof labels a goroutine had from a time on, up to the next
// span's.
type LabelSpan struct {
	From   uint64            `json:"from_us"` // µs since the file's start
	Labels map[string]string `json:"labels"`  // empty: it had none from then on
}

// LeafPCs counts the samples by their innermost program counters, for formats that
// know only addresses. Addresses are as linked: the load bias is subtracted, and 1
// from return addresses.
type LeafPCs struct {
	TextStart uint64   `json:"text_start"` // of the executable's .text, link-time
	TextSize  uint64   `json:"text_size"`
	PCs       []LeafPC `json:"pcs"` // ascending by Addr
}

// A LeafPC is one address and how often it was the innermost one.
type LeafPC struct {
	Addr uint64 `json:"a"`
	CPU  uint32 `json:"c,omitempty"` // samples on CPU
	Wall uint32 `json:"w"`           // all samples

	// The weights of these samples, in µs. Waiting goroutines are sampled less often
	// than running ones, so counts alone understate them. Files of early versions
	// have no weights.
	CPUTime  uint64 `json:"ct,omitempty"`
	WallTime uint64 `json:"wt,omitempty"`
}

// A Checksum is the CRC-32C of the file's sample region as stored, from the end of
// the header to the string table.
type Checksum struct {
	CRC32C uint32 `json:"crc32c"`
}
