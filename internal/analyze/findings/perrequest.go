package findings

import (
	"fmt"
	"regexp"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

// What a stack does for a moment that may be avoided.
const (
	opSync  = "fsync"
	opDNS   = "dns"
	opTLS   = "tls"
	opDial  = "dial"
	opExec  = "exec"
	opWrite = "write" // to a connection whose other end does not read
	opSleep = "sleep"
	opTick  = "tick" // it waits for the next one
)

var (
	syncFunc = regexp.MustCompile(`^(os\.\(\*File\)\.Sync|syscall\.(Fsync|Fdatasync)|internal/poll\.\(\*FD\)\.Fsync|golang\.org/x/sys/unix\.(Fsync|Fdatasync|Msync)|modernc\.org/libc\.X?(fsync|fdatasync)|modernc\.org/libc\.___fsync)$`)
	dnsFunc  = regexp.MustCompile(`^net\.(\(\*Resolver\)\.(lookup|Lookup|goLookup|exchange|tryOneName)|lookupIP|cgoLookup|goLookup|doBlockingWithCtx)`)
	tlsFunc  = regexp.MustCompile(`^crypto/tls\.\(\*Conn\)\.(handshakeContext|HandshakeContext|Handshake)$|^net/http\.\(\*persistConn\)\.addTLS`)
	execFunc = regexp.MustCompile(`^os\.(StartProcess|\(\*Process\)\.[wW]ait)$|^os/exec\.\(\*Cmd\)\.`)
	// dialFunc are functions that make a connection, with all that a client and a server tell each
	// other before the first question: by their names, as drivers of database/sql and most clients
	// have them, and those of go-redis, pgx and NATS.
	dialFunc = regexp.MustCompile(`^net/http\.\(\*Transport\)\.dialConn$|^net\.\(\*(sysDialer|Dialer)\)\.|\.\(?\*?\w*[cC]onnector\)?\.Connect$|\.Dial(Context|TLS|Timeout|URL|Config)?$|` +
		`/go-redis/.*\.(\(\*baseClient\)\.initConn|\(\*ConnPool\)\.queuedNewConn)$|/pgx/.*\.ConnectConfig$|/nats\.go\.\(\*Conn\)\.connect$`)
	// helper is what goroutines begin with that look up a name or make a handshake for another one.
	// It waits for them, so the time counts once.
	helper = regexp.MustCompile(`^(net|internal/singleflight)\.|^net/http\.\(\*persistConn\)\.addTLS`)
)

// dialConn makes a connection of http.Transport. One goroutine is in it until that is ready.
const dialConn = "net/http.(*Transport).dialConn"

// operations returns a function that says what a record does. It compares each frame's name once: a
// large profile has many records.
func operations(p *profile.Profile) func(rec *profile.Record) string {
	ops := make([]string, len(p.Frames))
	for i := range p.Frames {
		ops[i] = opOf(&p.Frames[i])
	}
	return func(rec *profile.Record) (op string) {
		if rec.State == "sleep" && len(rec.Stack) > 0 {
			return opSleep
		}
		for _, id := range rec.Stack {
			if is := ops[id]; is != "" {
				if op = is; op != opDial && op != opWrite { // connections are made with all the others
					return op
				}
			}
		}
		return op
	}
}

// opOf returns what a function does, if it is one of those above.
func opOf(f *profile.Frame) string {
	switch {
	case f.File == "":
	case f.Func == "internal/poll.(*pollDesc).waitWrite":
		return opWrite
	case syncFunc.MatchString(f.Func):
		return opSync
	case dnsFunc.MatchString(f.Func):
		return opDNS
	case tlsFunc.MatchString(f.Func):
		return opTLS
	case execFunc.MatchString(f.Func):
		return opExec
	case dialFunc.MatchString(f.Func):
		return opDial
	}
	return ""
}

// opWords are kinds of findings about one operation: what it is called, and what helps.
var opWords = map[string]struct{ kind, what, hint string }{
	opSync: {Fsync, "wait until data are on the disk (fsync)", "several writes can share one fsync"},
	opDNS:  {DNS, "look up names of hosts", "a connection that is kept, or a cache, needs no look-up"},
	opTLS:  {TLS, "make TLS handshakes", "a connection that is kept needs none: read the body to its end and close it, share the client"},
	opExec: {Exec, "run other programs", "can a library do it, or one program that is kept?"},
	opDial: {Connect, "make connections", "a connection that is kept needs none: share the client, keep more idle ones, read bodies to the end"},
}

// opOrder is the order in which they are looked for.
var opOrder = []string{opSync, opDNS, opTLS, opExec, opDial}

// perRequest says what requests, or jobs, do each time that they need not.
func perRequest(f *facts) error {
	for _, op := range opOrder {
		all, most, series := time.Duration(0), time.Duration(0), []float32(nil)
		var first *spot
		for _, s := range f.spots {
			t := f.of(s)
			if !f.byRequests() {
				t -= s.helps
				if f.dialed {
					t -= s.dials
				}
			}
			if s.op == op && t > 0 {
				all += t
				series = profile.Plus(series, s.series)
				if t > most {
					first, most = s, t
				}
			}
		}
		if f.worth(all, leastShare) {
			f.op(op, all, first.place, f.span(series))
		}
	}
	return nil
}

func (f *facts) op(op string, all time.Duration, at place, span Span) {
	w := opWords[op]
	x := Finding{Kind: w.kind, Cost: all, Share: f.share(all), Sure: Measured, Span: span, Evidence: []string{w.hint}}
	x.Text = fmt.Sprintf("%s %s: %s, most of it at %s%s.", f.who(), w.what, f.part(all), at.text(), span.text())
	x.Command = "report %s --tree --focus " + quoted(funcFlag(at.function))
	f.add(x, at)
}

// dials reports whether goroutines that wait for a connection of http.Transport wait because one is
// made each time. Then it says so.
func (f *facts) dials(s *spot) bool {
	times := map[string]time.Duration{}
	all := time.Duration(0)
	for _, d := range f.spots {
		times[d.op] += d.dials
		all += d.dials
	}
	if float64(all) < dialShare*float64(s.wall) {
		return false
	}
	op := opDial
	for _, o := range opOrder {
		if times[o] > all/2 {
			op = o
		}
	}
	f.dialed = true
	w := opWords[op]
	x := Finding{Kind: w.kind, Cost: f.of(s), Share: f.share(f.of(s)), Sure: Inferred, Span: f.span(s.series)}
	x.Text = fmt.Sprintf("%s wait for new connections of http.Transport: %s, at %s%s; the goroutines that connect %s for %s.", f.who(), f.part(f.of(s)), s.place.text(), x.Span.text(), w.what, durationText(times[op]))
	x.Evidence = []string{w.hint}
	x.Command = "waits " + quoted(funcFlag(s.place.function)) + " %s"
	f.add(x, s.place)
	return true
}
