package findings

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze/locks"
)

// poolWaits are the names of waits for a place in something that has few, and what makes it
// greater.
var poolWaits = map[string]string{
	"a free connection of sql.DB":         "SetMaxOpenConns sets how many there are",
	"a connection of http.Transport":      "MaxConnsPerHost sets how many there are, MaxIdleConnsPerHost how many are kept",
	"a place in errgroup.Group":           "SetLimit sets how many there are",
	"a place in semaphore.Weighted":       "NewWeighted sets how many there are",
	"a token of rate.Limiter":             "NewLimiter, or SetLimit and SetBurst, set how many there are",
	"a free connection of go-redis":       "PoolSize sets how many there are",
	"a connection of fasthttp.HostClient": "MaxConns sets how many there are",
	"a worker of ants.Pool":               "NewPool, or Tune, sets how many there are",
	"a goroutine of conc's pool":          "WithMaxGoroutines sets how many there are",
	"a free connection of pgxpool":        "MaxConns sets how many there are, pool_max_conns in the URL",
	"a place for a stream of gRPC":        "the server's MaxConcurrentStreams sets how many there are; more connections have more",
}

// chains returns what kept goroutines waiting at the places at which they waited for others to end,
// or for a place in a pool: what gotach waits shows. It is nil if nothing of that is worth a
// sentence, or if the profile is too large to tell at once.
func (f *facts) chains() (map[place][]locks.WaitNode, error) {
	if f.chainsKnown {
		return f.chainsAt, nil
	}
	f.chainsKnown = true
	var names []string
	for _, s := range f.spots {
		if s.place.function == "" {
			continue
		}
		if poolWaits[s.wait] != "" && f.worth(f.of(s), nestedShare) || (s.state == waitGroup || f.answers(s)) && f.worth(f.of(s), leastShare) {
			names = append(names, regexp.QuoteMeta(s.place.function))
		}
	}
	if len(names) == 0 || f.Fast && f.p.Samples > mostFast {
		return nil, nil
	}
	slices.Sort(names)
	w, err := f.Survey.FindWaits(regexp.MustCompile("^(" + strings.Join(slices.Compact(names), "|") + ")$"))
	if err != nil || w == nil {
		return nil, err
	}
	f.chainsAt = map[place][]locks.WaitNode{}
	for _, n := range w.Chains {
		at := placeOfHolder(&n.HolderFrame)
		f.chainsAt[at] = append(f.chainsAt[at], n)
	}
	return f.chainsAt, nil
}

// answers reports whether requests wait for an answer of other goroutines of the program, or for
// something else that has no name.
func (f *facts) answers(s *spot) bool {
	return f.byRequests() && (s.state == "chan receive" || s.state == "select") && s.wait == "" && !s.itself && s.op == ""
}

// mostFast is the number of samples that are read again also if it has to be fast: two readings
// take 0.15 s of CPU.
const mostFast = 200_000

const waitGroup = "sync.WaitGroup.Wait"
