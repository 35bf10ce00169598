package tachyon

import "time"

// Metadata is what gotach adds to a file beyond samples, as JSON objects in
// strings that no frame uses. A file of another writer has none of it.
//
// Each object's first key is "gotach" and names its kind: "session" (one),
// "goroutines" (any number, each with a part of the list), "pcs" (at most one)
// and "checksum" (one, the last string).
type Metadata struct {
	Session    *Session
	Goroutines []Goroutine
	PCs        *LeafPCs
	Checksum   *Checksum
}

// The values of the first key, "gotach".
const (
	KindSession    = "session"
	KindGoroutines = "goroutines"
	KindPCs        = "pcs"
	KindChecksum   = "checksum"
)

// Session says what was profiled and how well that went.
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

	Source        string        `json:"source"`                  // native or portable
	SourceReason  string        `json:"source_reason,omitempty"` // why this one, where another was wanted
	Rate          int           `json:"rate"`                    // ticks a second asked for
	RateReached   float64       `json:"rate_reached"`            // ticks a second taken
	Budget        float64       `json:"budget_percent"`          // of the machine's CPU
	Cost          time.Duration `json:"cost_ns"`                 // CPU time that sampling took, as the source measured it
	TicksAsked    int64         `json:"ticks_asked"`
	TicksReached  int64         `json:"ticks_reached"`
	Samples       int64         `json:"samples"`
	Dropped       int64         `json:"dropped"` // samples lost: no room for them, or torn
	Torn          int64         `json:"torn"`    // of these, walks dropped because the goroutine moved meanwhile
	MaxGoroutines int           `json:"max_goroutines"`
	// Goroutines that ended and are not listed, and label spans left out,
	// because there were too many to remember.
	GoroutinesOmitted int64 `json:"goroutines_omitted,omitempty"`
	LabelsOmitted     int64 `json:"labels_omitted,omitempty"`

	// Ticks that were not taken because they would have stopped the program for too
	// long, and for how long there are no samples therefore. A goroutine's next
	// sample has that time too.
	TicksRefused int64         `json:"ticks_refused,omitempty"`
	Blind        time.Duration `json:"blind_ns,omitempty"`

	Error string `json:"error,omitempty"` // what ended the session early

	// Of a session of several files, which of them this is, from 1, and when the
	// first one began; Start, Duration and all counts are this file's own.
	Part         int       `json:"part,omitempty"`
	SessionStart time.Time `json:"session_start,omitzero"`
}

// Goroutine is what is known of one goroutine beyond its samples. Times are µs
// since the file's start time.
type Goroutine struct {
	ID        uint64 `json:"id"`
	Parent    uint64 `json:"parent,omitempty"`     // 0: unknown
	CreatedBy string `json:"created_by,omitempty"` // function
	CreatedAt string `json:"created_at,omitempty"` // file:line
	First     uint64 `json:"first_us"`
	Last      uint64 `json:"last_us"`
	// FirstWeight is what its first sample in the file stands for if that is not
	// one interval: the time in µs since its previous one, in an earlier file, or
	// since the look before at the place where it was found.
	FirstWeight uint64      `json:"first_weight_us,omitempty"`
	Labels      []LabelSpan `json:"labels,omitempty"` // in order of From
}

// FirstWeights returns, in µs, what goroutines' first samples in the file stand for
// where that is not one interval, by id.
func (m *Metadata) FirstWeights() map[uint64]uint64 {
	weights := map[uint64]uint64{}
	for _, g := range m.Goroutines {
		if g.FirstWeight > 0 {
			weights[g.ID] = g.FirstWeight
		}
	}
	return weights
}

// LabelSpan says which pprof labels a goroutine had from one sample on up to
// the next span's From.
type LabelSpan struct {
	From   uint64            `json:"from_us"`
	Labels map[string]string `json:"labels"` // empty: it had none from then on
}

// LeafPCs counts the sampled leaf PCs, for formats that know only addresses.
// An address is link-time: load bias subtracted, and for a return address 1.
type LeafPCs struct {
	TextStart uint64   `json:"text_start"` // of the executable's .text, link-time
	TextSize  uint64   `json:"text_size"`
	PCs       []LeafPC `json:"pcs"` // ascending by Addr
}

// LeafPC is one address and how often it was the innermost one.
type LeafPC struct {
	Addr uint64 `json:"a"`
	CPU  uint32 `json:"c,omitempty"` // samples on CPU
	Wall uint32 `json:"w"`           // all samples

	// What these samples stand for, in µs. Goroutines that wait are sampled less
	// often than those that run, so that counts alone tell too little of them. Files
	// of early versions have no times.
	CPUTime  uint64 `json:"ct,omitempty"`
	WallTime uint64 `json:"wt,omitempty"`
}

// Checksum is the CRC-32C of the file's sample region as it lies on disk, from
// the end of the header to the string table.
type Checksum struct {
	CRC32C uint32 `json:"crc32c"`
}
