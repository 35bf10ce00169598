package leaks

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/gotach/profiler/internal/analyze"
)

// A Group is a group that grows, or that has proven leaks. It is a suspect if
//   - the number of goroutines that wait there grows, and the lower bound of its slope is above 0,
//   - so does the number of waits that have not ended at the end of the profile, by the times at
//     which they began,
//   - waits that have lasted for an eighth of the profile do not end: there are at least
//     minStuck such waits, and at most a tenth as many that ended.
type Group struct {
	CreatedBy string        `json:"created_by"`    // function; "" if unknown
	CreatedAt string        `json:"created_at"`    // file:line
	Reason    string        `json:"reason"`        // such as "chan receive"
	For       string        `json:"for,omitempty"` // what the goroutines wait for, such as "the next request"; "" if unknown
	Function  string        `json:"function"`      // innermost one of the program's own code
	File      string        `json:"file"`
	Line      int           `json:"line"`
	Start     int           `json:"start"` // goroutines that wait there at the start
	End       int           `json:"end"`   // at the end
	PerMinute float64       `json:"per_minute"`
	Low       float64       `json:"per_minute_low"` // lower bound of the 95 % interval
	Oldest    time.Duration `json:"oldest_ns"`      // how long the longest of the present waits has lasted
	RanAgain  int           `json:"ran_again"`      // waits there that ended
	Stuck     int           `json:"stuck"`          // waits that have lasted for an eighth of the profile and last still
	Unstuck   int           `json:"stuck_ended"`    // waits that lasted as long and ended
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

// row returns what is known about a group, and whether it grows.
func (l *Count) row(g *leakGroup) (Group, bool) {
	alive := g.alive.average(&l.clock, l.End)
	n := len(alive)
	if l.Source.Creators()[g.creator].Func == analyze.BackgroundRead {
		return Group{}, false // it ends with the handler, whose goroutine has a group too
	}
	if n < 8 || len(g.list) < 2 || analyze.Sum(alive[n-n/4:])-analyze.Sum(alive[:n/4]) < float64(n/4) {
		return Group{}, false
	}
	perMinute := float64(time.Minute/time.Microsecond) / float64(l.clock.width)
	slope, low := theilSen(alive)
	if low <= 0 {
		return Group{}, false
	}
	row := l.describe(g, alive)
	row.PerMinute, row.Low = slope*perMinute, low*perMinute
	_, stuck := theilSen(g.stuck.average(&l.clock, l.End))
	row.Suspect = stuck > 0 && row.Stuck >= minStuck && 10*row.Unstuck <= row.Stuck
	return row, true
}

// describe returns what is known about a group whether it grows or not.
func (l *Count) describe(g *leakGroup, alive []float64) Group {
	by, site := l.Source.Creators()[g.creator], l.sites[g.site]
	row := Group{
		CreatedBy: by.Func, CreatedAt: by.At,
		Reason: site.reason, For: l.waitFor[g.site], Function: site.function, File: site.file, Line: site.line, End: len(g.list),
	}
	if len(alive) > 0 {
		row.Start = int(math.Round(alive[0]))
	}
	long := l.End / 8
	for _, length := range g.list {
		row.Oldest = max(row.Oldest, time.Duration(length)*time.Microsecond)
		if length >= long {
			row.Stuck++
		}
	}
	for i, count := range g.ended {
		row.RanAgain += int(count)
		if i >= bits.Len64(long/1000) {
			row.Unstuck += int(count)
		}
	}
	for _, n := range alive {
		row.Alive = append(row.Alive, math.Round(100*n)/100)
	}
	return row
}
