package push

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"

	"github.com/gotach/profiler/internal/testenv"
)

// parts makes a target cut files into many messages.
func parts(o Options) Options {
	o.Target.(*otlpTarget).message = 600
	return o
}

// of reports whether a request is of a process.
func of(pid string) func(*pb.ProfilesData) bool {
	return func(d *pb.ProfilesData) bool {
		return strings.HasPrefix(origin(d, d.ResourceProfiles[0].ScopeProfiles[0].Profiles[0]), pid+" ")
	}
}

// answers is a fault of a receiver, which answers some requests with a code and a text.
func answers(code int, text string, is func(*pb.ProfilesData) bool) func(http.ResponseWriter, *http.Request, *pb.ProfilesData) bool {
	return func(w http.ResponseWriter, _ *http.Request, d *pb.ProfilesData) bool {
		if !is(d) {
			return false
		}
		http.Error(w, text, code)
		return true
	}
}

// While the target is down, for an hour, files wait. The times between two tries become longer, up to a bound.
func TestFaultDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, r, o := received(t, 3, 2)
		begin, tries := time.Now(), 0
		last, most := begin, time.Duration(0)
		longest := time.Duration(0)
		r.fault = func(w http.ResponseWriter, _ *http.Request, _ *pb.ProfilesData) bool {
			if wait := time.Since(last); tries > 0 && (wait <= 0 || wait > most) {
				t.Errorf("a wait of %v after %d tries, want at most %v", wait, tries, most)
			} else {
				longest = max(longest, wait)
			}
			last, most = time.Now(), min(time.Second<<min(tries, 10), time.Minute)
			tries++
			if down := time.Since(begin) < time.Hour; !down {
				r.fault = nil
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		o.Backoff, o.MaxBackoff = 0, 0 // the usual ones
		must(push(t, o))
		r.check(t, profiled(t, dir), 0)
		testenv.FailIf(t, o.Metrics.failures != int64(tries-1) || longest < 30*time.Second, "%d tries, %d failures, at most %v between two", tries, o.Metrics.failures, longest)
	})
}

// After 429, nothing comes before the time that Retry-After says, a number or a date, and not much later.
func TestFaultRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, r, o := received(t, 2, 2)
		o.Backoff, o.MaxBackoff = 4*time.Second, 4*time.Second
		var until time.Time
		asked := []string{"100", "", time.Now().UTC().Add(time.Hour).Format(http.TimeFormat)}
		r.fault = func(w http.ResponseWriter, _ *http.Request, _ *pb.ProfilesData) bool {
			now := time.Now()
			testenv.FailIf(t, !until.IsZero() && (now.Before(until) || now.After(until.Add(5*time.Second))), "a request comes at %v, want it at %v or soon after that", now, until)
			until = time.Time{}
			if r.requests%2 != 0 || len(asked) == 0 {
				return false
			}
			switch w.Header().Set("Retry-After", asked[0]); len(asked) {
			case 3:
				until = time.Now().Add(100 * time.Second)
			case 2:
				until = time.Now()
			case 1:
				until = time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)
			}
			asked = asked[1:]
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		must(push(t, o))
		testenv.SameList(t, "not asked", asked, nil)
		r.check(t, profiled(t, dir), 0)
	})
}

// Retry-After may be anything.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 4, 10, 24, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "soon": 0, "1000000": time.Hour,
		"Sat, 21 Nov 2026 04:11:24 GMT": time.Minute, "Sat, 21 Nov 2026 04:10:23 GMT": 0,
	} {
		testenv.Same(t, text, retryAfter(text, now), want)
	}
}

// A receiver that takes only small messages gets all in small ones. A message with one sample that is too large is parked.
func TestFaultTooLarge(t *testing.T) {
	for _, most := range []int{1, 3, 0} {
		dir, r, o := received(t, 1, 2)
		r.fault = answers(http.StatusRequestEntityTooLarge, "", func(d *pb.ProfilesData) bool {
			return len(d.ResourceProfiles[0].ScopeProfiles[0].Profiles[0].Samples) > most
		})
		must(push(t, o))
		want := profiled(t, dir)
		if most == 0 {
			clear(want)
		}
		r.check(t, want, 0)
		testenv.Same(t, fmt.Sprint("files refused, at most ", most, " samples"), o.Metrics.Files("refused"), map[int]int64{0: 2}[most])
	}
}

// A file that is refused is parked, with the reason, and the others go. From there it can be sent again.
func TestFaultRefused(t *testing.T) {
	dir, r, o := received(t, 3, 2)
	damaged := filepath.Join(dir, "p2", "app.2.tach")
	b := testenv.Must(os.ReadFile(damaged))
	want := profiled(t, dir)
	b[100] ^= 1
	must(os.WriteFile(damaged, b, 0o600))
	r.fault = answers(http.StatusBadRequest, "no profiles of 101,\nplease", of("101"))
	for range 2 { // what is parked is not tried again
		must(push(t, parts(o)))
	}
	n, bad := o.Metrics.Files("refused"), o.Metrics.Files("unreadable")
	testenv.FailIf(t, n != 2 || bad != 1 || o.Metrics.Files("sent") != 3, "%d files refused, %d damaged", n, bad)
	for name, reason := range map[string]string{"p1/app.1.tach": "answers 400 Bad Request: no profiles of 101, please", "p1/app.2.tach": "400", "p2/app.2.tach": "checksum"} {
		text, err := os.ReadFile(filepath.Join(dir, "refused", name+".reason.txt"))
		testenv.FailIf(t, err != nil || !strings.Contains(string(text), reason), "the reason for %s is %q (%v)", name, text, err)
	}
	r.fault = nil
	must(push(t, r.options(t, filepath.Join(dir, "refused"))))
	maps.DeleteFunc(want, func(k string, _ [2]time.Duration) bool {
		return k == fmt.Sprintf("102 at %d", startMicros+102*17+1_000_000)
	})
	r.check(t, want, 0)
	testenv.Same(t, "files sent, and sent again", len(want), 5)
}

// A receiver that answers 200 but rejects profiles has not taken the file.
func TestFaultRejected(t *testing.T) {
	dir, r, o := received(t, 1, 1)
	r.fault = func(w http.ResponseWriter, _ *http.Request, _ *pb.ProfilesData) bool {
		partial := append([]byte{0x08, 0x02, 0x12, 0x08}, "too dull"...)
		_, _ = w.Write(append([]byte{0x0a, byte(len(partial))}, partial...))
		return true
	}
	must(push(t, o))
	text, _ := os.ReadFile(filepath.Join(dir, "refused", "p0", "app.1.tach.reason.txt"))
	testenv.FailIf(t, !strings.Contains(string(text), "rejects 2 profiles: too dull") || o.Metrics.rejected != 2, "%d rejected, the reason is %q", o.Metrics.rejected, text)
}

// A connection that is cut while a request is on its way, or after the receiver has it but before it has answered, loses
// nothing. What comes twice has the same ids.
func TestFaultCut(t *testing.T) {
	for _, kept := range []bool{false, true} {
		dir, r, o := received(t, 2, 2)
		cuts, repeats := 0, 0
		r.fault = func(w http.ResponseWriter, _ *http.Request, d *pb.ProfilesData) bool {
			if r.requests%3 == 1 {
				return false
			}
			cuts++
			if kept {
				repeats += len(d.ResourceProfiles[0].ScopeProfiles[0].Profiles)
				r.keep(d)
			}
			if r.requests%3 == 2 { // in the answer
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("0123456789"))
				w.(http.Flusher).Flush()
			}
			panic(http.ErrAbortHandler)
		}
		r.serve(t, &o)
		must(push(t, parts(o)))
		r.check(t, profiled(t, dir), repeats)
		testenv.FailIf(t, cuts < 4, "%d cuts", cuts)
	}
}

// A file that the receiver cannot handle does not hold up the others.
func TestFaultPoison(t *testing.T) {
	dir, r, o := received(t, 3, 2)
	r.fault = answers(http.StatusInternalServerError, "", of("100"))
	o.Tries = 5
	err := push(t, o)
	testenv.FailIf(t, err == nil || o.Metrics.Files("sent") != 4 || o.Metrics.Files("refused") != 0, "%v; %d files sent, %d refused", err, o.Metrics.Files("sent"), o.Metrics.Files("refused"))
	want := profiled(t, dir)
	maps.DeleteFunc(want, func(k string, _ [2]time.Duration) bool { return strings.HasPrefix(k, "100 ") })
	r.check(t, want, 0)
}

// While the cursor cannot be saved, as on a full disk, everything is sent. It is saved when there is room again. Until then,
// a restart sends files again, with the same ids.
func TestCursorNotSaved(t *testing.T) {
	dir, r, o := received(t, 4, 3)
	want := profiled(t, dir)
	p := testenv.Must(New(o))
	blocked := filepath.Join(dir, p.cursor.name+".new") // a directory where the cursor's new file would be
	must(errors.Join(p.cursor.f.Close(), os.MkdirAll(filepath.Join(blocked, "x"), 0o700)))
	for round := range 2 {
		testenv.Is(t, fmt.Sprint("round ", round), push(t, o), syscall.ENOTEMPTY)
		r.check(t, want, 24*round)
	}
	testenv.Same(t, "errors of the cursor", o.Metrics.cursor, 24)
	// Room comes while files are being sent: then all that was sent before is saved too.
	r.fault = func(http.ResponseWriter, *http.Request, *pb.ProfilesData) bool {
		if r.requests == 24+6 {
			must(os.RemoveAll(blocked))
		}
		return false
	}
	for range 2 {
		must(push(t, o))
		testenv.Same(t, "requests, each file three times", r.requests, 36)
	}
	r.check(t, want, 48)
}
