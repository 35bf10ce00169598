package tachyon

import "time"

// Records are metadata that a sampler learns while it runs. They go into the record section of
// the file as they become known, so nobody has to keep them, and a killed program's file has them.
type Records struct {
	// Goroutines are parts of goroutines' metadata. The first part of a goroutine has all that is
	// known so far. Each further part has the ID, the present Last, and the label spans that are
	// new. A goroutine without a further part after its last sample was alive at the end. So if it
	// waited then, readers of an unfinished file add a sample to it, at the time of the latest
	// progress.
	Goroutines []Goroutine

	// Objects are what goroutines wait for. An object replaces a previous one with the same
	// number.
	Objects []Object

	// Stops counts from where the previous one ended, or from the file's start. nil: nothing new.
	Stops *Stops

	// Progress replaces the previous one. nil: nothing new.
	Progress *Progress
}

// Progress is the part of a [Session] that changes while the session runs. It counts only in
// a file that was not finished; a finished file has a complete Session.
type Progress struct {
	Duration     time.Duration `json:"duration_ns"`
	Source       string        `json:"source"`
	SourceReason string        `json:"source_reason,omitempty"`
	RateReached  float64       `json:"rate_reached"`
	// As in Session.
	Objects        string `json:"objects,omitempty"`
	ObjectsUnnamed string `json:"objects_unnamed,omitempty"`
	Stops          bool   `json:"stops,omitempty"`
	FarEndsUnknown string `json:"far_ends_unknown,omitempty"`
	Kept           string `json:"kept,omitempty"`
	Counts
}

// Describe copies p into a session.
func (p *Progress) Describe(s *Session) {
	s.Duration, s.Source, s.SourceReason = p.Duration, p.Source, p.SourceReason
	s.RateReached, s.Counts = p.RateReached, p.Counts
	s.Objects, s.ObjectsUnnamed, s.FarEndsUnknown, s.Stops, s.Kept = p.Objects, p.ObjectsUnnamed, p.FarEndsUnknown, p.Stops, p.Kept
}

// Stops says how often goroutines stopped running in a time: they began to wait, were preempted, or
// came out of a system call without a processor to run on. The time begins where that of the
// previous record with an earlier Until ends.
type Stops struct {
	Until uint64           `json:"until_us"` // µs since the file's start
	List  []GoroutineStops `json:"list"`     // ascending ids; goroutines that are not in it did not stop. Empty: nothing is known of the time
}

// GoroutineStops says how often one goroutine stopped running. It is counted from visit to visit.
// So what was before the goroutine's first sample or after its last one is missing.
type GoroutineStops struct {
	ID uint64 `json:"id"`
	N  uint64 `json:"n"`
	// AtLeast says that it may have stopped more often. The runtime's counter has eight bits, and
	// between two visits it may have passed zero.
	AtLeast bool `json:"at_least,omitempty"`
}

// Add merges a part of a goroutine's metadata into g, which has the parts before it.
func (g *Goroutine) Add(part *Goroutine) {
	g.Last = max(g.Last, part.Last)
	g.Labels = append(g.Labels, part.Labels...)
}

// A Section says where a file's record section is.
type Section struct {
	Version int    `json:"version"` // RecordsVersion
	Offset  int64  `json:"offset"`  // in the file, in bytes
	Length  int64  `json:"length"`  // bytes
	CRC32C  uint32 `json:"crc32c"`  // of these bytes
}

// RecordsVersion is the version of record sections that this package describes.
const RecordsVersion = 1
