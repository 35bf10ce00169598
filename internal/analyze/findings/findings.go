// Package findings says in sentences what is wrong with a program: the cause, the place, what it
// costs, since and until when, how sure that is, and which command shows more. It computes nothing
// itself.
// Each number is one that an analysis of package analyze has, and that a command prints. If nothing
// is wrong it says nothing.
//
// A kind of finding has a file of its own. findings.go has what is common to all and their order;
// facts.go has what they all look at, words.go what their sentences are made of.
package findings

import (
	"cmp"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/analyze/requests"
)

// A Finding is one thing that is wrong, or with Note something that one should know and that is no
// fault of the program.
type Finding struct {
	Kind     string `json:"kind"` // one of Kinds
	Text     string `json:"text"` // one or two sentences
	Function string `json:"function,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	// Cost is time of goroutines, all added up, or of CPUs. Share is its part of the time of
	// requests if there are requests, else of all the work of goroutines; that of a leak is the
	// part of all goroutines that are leaked.
	Cost  time.Duration `json:"cost_ns"`
	Share float64       `json:"share"`
	// Sure is Measured or Inferred.
	Sure string `json:"sure"`
	Span
	Command string `json:"command"` // that shows more

	Evidence []string `json:"evidence,omitempty"` // further facts, a line each, at most five
	Note     bool     `json:"note,omitempty"`     // it is no fault of the program

	first  bool    // it comes before all others
	weight float64 // the share is multiplied by it for the order; 0 is 1
	clock  float64 // the share of the time on the clock, for the order if it is greater
	place  place   // of which it speaks; another finding about it says nothing new
	about  []place
}

// A Span says when it is so, µs since the start.
type Span struct {
	Since int64 `json:"since_us"`           // 0: from the start, or unknown
	Until int64 `json:"until_us,omitempty"` // 0: to the end, or unknown
}

// How sure a finding is.
const (
	Measured = "measured"
	Inferred = "inferred"
)

// Kinds of findings.
const (
	Leak      = "leak"
	CPU       = "cpu"       // all cores are used
	Quota     = "quota"     // the CPU quota stops the program
	Others    = "others"    // other programs have the cores
	GC        = "gc"        // the collector takes much of the CPU time
	Lock      = "lock"      // goroutines wait for one that holds a lock
	Pool      = "pool"      // a pool of connections, a semaphore or a limit is too small
	Peer      = "peer"      // another program or a device answers slowly
	Channel   = "channel"   // the consumer of a channel is slow
	Straggler = "straggler" // a WaitGroup waits for its last goroutine
	Serial    = "serial"    // one goroutine computes, and others could
	Compute   = "compute"   // requests compute in one function
	Chatty    = "chatty"    // many short waits at one place in each request
	Fsync     = "fsync"
	DNS       = "dns"
	TLS       = "tls"
	Connect   = "connect" // each request makes a connection
	Exec      = "exec"    // each request runs another program
	Sleep     = "sleep"
	Wait      = "wait"    // goroutines wait at one place, for what is not known
	Idle      = "idle"    // there was nothing to do
	Profile   = "profile" // the profile itself is not to be trusted
)

// Kinds lists them.
var Kinds = []string{Leak, CPU, Quota, Others, GC, Lock, Pool, Peer, Channel, Straggler, Serial, Compute, Chatty, Fsync, DNS, TLS, Connect, Exec, Sleep, Wait, Idle, Profile}

// Input is what is known of a profile.
type Input struct {
	Survey   *report.Survey     // of all samples, with ReportOptions.Series
	Locks    *locks.Locks       // Survey.Locks
	Requests *requests.Requests // Survey.FindRequests; may be nil
	Files    string             // the files of the profile as they can be typed, for commands
	// Fast says not to read the samples of a large profile again: then nothing is known of
	// stragglers, nor of those that have a connection of a pool.
	Fast bool
}

// Of returns what is found in a profile, what gives the most if it is cured first, notes last. It
// may read the samples twice more, if goroutines wait for others to end or for connections.
func Of(in Input) ([]Finding, error) {
	f := newFacts(in)
	if f.session == nil {
		f.unknown()
		return f.found, nil
	}
	for _, find := range []func(*facts) error{growing, cpu, collector, contended, pools, channels, stragglers, perRequest, chatty, sleeps, peers, serial, waits, idle, requestsCompute, trust} {
		if err := find(f); err != nil {
			return nil, err
		}
	}
	return f.ordered(), nil
}

// OfSurvey is Of with the locks and requests of a survey. Above a number of samples it is Fast.
func OfSurvey(survey *report.Survey, files string, most int64) ([]Finding, error) {
	waits, err := survey.Locks()
	if err != nil {
		return nil, err
	}
	found, err := survey.FindRequests()
	if err != nil {
		return nil, err
	}
	return Of(Input{Survey: survey, Locks: waits, Requests: found, Files: files, Fast: survey.Profile.Samples > most})
}

// ordered returns the findings in their order. What another one has said of the same place is left
// out.
func (f *facts) ordered() []Finding {
	rank := func(x *Finding) int {
		switch {
		case x.first:
			return -1
		case x.Kind == Profile: // what is said of the program comes first
			return 2
		case x.Note:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(f.found, func(a, b Finding) int {
		return cmp.Or(rank(&a)-rank(&b), cmp.Compare(b.score(), a.score()), cmp.Compare(b.Cost, a.Cost))
	})
	said := map[place]bool{}
	out := []Finding{}
	for _, x := range f.found {
		if x.place.function != "" && said[x.place] {
			continue
		}
		said[x.place] = true
		for _, at := range x.about {
			said[at] = true
			said[place{function: at.function, file: at.file}] = true // of CPU time in all its lines
		}
		out = append(out, x)
	}
	return out
}

// Leads reports whether nothing else is worth reading before it.
func (x *Finding) Leads() bool { return x.first }

// score is that by which findings are ordered: the share, or that of the time on the clock.
func (x *Finding) score() float64 {
	score := max(x.Share, x.clock)
	if x.weight > 0 {
		score *= x.weight
	}
	return score
}

// Problems returns the number of findings that are not notes.
func Problems(list []Finding) (n int) {
	for i := range list {
		if !list[i].Note {
			n++
		}
	}
	return n
}
