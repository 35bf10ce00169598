package report

import (
	"regexp"
	"slices"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// RecordFacts are what a survey knows of a record of its profile.
type RecordFacts struct {
	Wait    string      // what a library waits for, such as "a free connection of sql.DB"; "" if that has no name
	Peer    string      // the far end of a wait, as in Source.Peers, or of all connections of the library that waits; "" if it is unknown
	Request bool        // it is of a request, as FindRequests finds them without options; not of a test
	Itself  bool        // it waits for an answer of the program's own server
	Time    syntax.Time // for which it waits, by the source text
	Asks    bool        // it waits in a loop for the answer to what it has asked for, by the source text of the program's own line

	// Site is the line that waits for a lock, channel or the like, as Lock.Sites has it. It may be
	// a library's.
	Site locks.HolderFrame
}

// Facts returns a function that tells of a record of Profile or Resting.
func (s *Survey) Facts() func(*profile.Record) RecordFacts {
	times, texts := map[locks.HolderFrame]syntax.Time{}, syntax.NewSources(s.read)
	asks, repeats := s.ofFrame(texts.Asks), s.ofFrame(texts.Repeats)
	return func(r *profile.Record) (f RecordFacts) {
		own := len(r.Stack)    // of the innermost function of the program
		looks, why := true, "" // no function of the program so far; why it waits
		f.Itself = s.apart.asksItself(r.Stack)
		for i, id := range r.Stack {
			of := s.apart.frame(id)
			f.Request = f.Request || of.request
			if of.transport {
				f.Request = false
				return f
			}
			switch {
			case i == 0:
				f.Peer = s.apart.peer(r.Stack)
				why = analyze.Reason(&s.Profile.Frames[id])
			case looks:
				wait := of.wait.In(why, s.Profile.Frames[r.Stack[i-1]].Func, f.Site.Func == "")
				if f.Wait == "" && wait != "" && f.Peer == "" { // another goroutine reads the answer
					f.Peer = s.apart.far[profile.Package(s.Profile.Frames[id].Func)]
				}
				if f.Wait == "" || wait != "" && of.wait.Outer() {
					f.Wait = wait
				}
			}
			if looks = looks && !of.program; of.program {
				own = min(own, i)
			}
			if f.Site.Func == "" && i > 0 && !of.sync {
				frame := &s.Profile.Frames[id]
				f.Site = locks.HolderFrame{Func: frame.Func, File: frame.File, Line: int(frame.Line)}
			}
		}
		if why == "select" || why == "chan receive" {
			is, known := times[f.Site]
			if !known {
				is = texts.ForTime(&tachyon.Frame{Func: f.Site.Func, File: f.Site.File, Line: int32(f.Site.Line)})
				times[f.Site] = is
			}
			f.Time = is
			f.Asks = own < len(r.Stack) && asks(r.Stack[own]) && slices.ContainsFunc(r.Stack[own:], repeats)
		}
		return f
	}
}

// ofFrame returns a function that tells once of each frame of Profile.
func (s *Survey) ofFrame(is func(*tachyon.Frame) bool) func(uint32) bool {
	known := map[uint32]bool{}
	return func(id uint32) bool {
		x, ok := known[id]
		if !ok {
			x = is(&s.Profile.Frames[id])
			known[id] = x
		}
		return x
	}
}

// FindWaits follows the waits in functions that match. It returns nil if the profile is too large
// to answer at once.
func (s *Survey) FindWaits(in *regexp.Regexp) (*locks.Waits, error) {
	if s.Profile.Samples > mostSurveyed || s.Profile.Goroutines > mostSurveyedGoroutines {
		return nil, nil
	}
	return locks.FindWaits(analyze.NewSamples("", s.src), locks.WaitOptions{Func: in, Options: locks.Options{Source: s.read}})
}

// Channels returns what Locks has, with the other sides of all channels. It returns nil if the
// profile is too large to answer at once.
func (s *Survey) Channels() (*locks.Locks, error) {
	if s.Profile.Samples > mostSurveyed {
		return nil, nil
	}
	return locks.Find(analyze.NewSamples("", s.src), locks.Options{Source: s.read, Channels: true})
}
