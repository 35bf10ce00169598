package leaks

import (
	"fmt"
	"math"
	"time"
)

// A Group is a group that grows, or that has proven leaks. It is a suspect if
//   - the number of goroutines that wait there grows, and the lower bound of its slope is above 0,
//   - so does the number of waits that have not ended at the end of the profile, by the times at
//     which they began,
//   - waits that have lasted for an eighth of the profile do not end: there are at least
//     minStuck such waits, and at most a tenth as many that ended.
//
// It is a suspect too if all of that is so of the goroutines instead of their waits, of which there
// are at least minStays: they come back to wait there again and again, as at a ticker, but do
// nothing else and do not end.
type Group struct {
	CreatedBy string        `json:"created_by"`    // function; "" if unknown
	CreatedAt string        `json:"created_at"`    // file:line
	Reason    string        `json:"reason"`        // such as "chan receive"
	For       string        `json:"for,omitempty"` // what the goroutines wait for, such as "the next request"; "" if unknown
	Function  string        `json:"function"`      // innermost one of the program's own code
	File      string        `json:"file"`
	Line      int           `json:"line"`
	Start     int           `json:"start"`         // goroutines that wait there at the start
	End       int           `json:"end"`           // at the end
	Cut       int           `json:"cut,omitempty"` // of these, the ones whose waits ended while the program did, as at a shutdown
	PerMinute float64       `json:"per_minute"`
	Low       float64       `json:"per_minute_low"` // lower bound of the 95 % interval
	Oldest    time.Duration `json:"oldest_ns"`      // how long the longest of the present waits has lasted
	RanAgain  int           `json:"ran_again"`      // waits there that ended
	Stuck     int           `json:"stuck"`          // waits that have lasted for an eighth of the profile and last still
	Unstuck   int           `json:"stuck_ended"`    // waits that lasted as long and ended
	Stays     int           `json:"stays"`          // goroutines that have waited nowhere else for an eighth of the profile and wait still
	Left      int           `json:"stays_ended"`    // goroutines that waited nowhere else for as long, and then ended or waited elsewhere
	Suspect   bool          `json:"suspect"`
	Proven    int           `json:"proven"` // goroutines that wait here forever, as the runtime has proved
	Alive     []float64     `json:"alive"`  // goroutines that wait there, for equal parts of the time
}

// Leaks reports whether a group is told as a leak: it is a suspect, or the runtime has proved it.
func (g *Group) Leaks() bool { return g.Suspect || g.Proven > 0 }

// GrowthText returns PerMinute with a sign, to four digits or to the unit.
func (g *Group) GrowthText() string {
	if math.Abs(g.PerMinute) < 999.95 {
		return fmt.Sprintf("%+.1f", g.PerMinute)
	}
	return fmt.Sprintf("%+.0f", g.PerMinute)
}
