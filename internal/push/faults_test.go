package push

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
)

// parts makes a target cut files into many messages.
func parts(o Options) Options {
	o.Target.(*otlpTarget).message = 600
	return o
}

// down is how long a target is down: GOTACH_DOWN, or a short time.
func down(t *testing.T) time.Duration {
	d, err := time.ParseDuration(os.Getenv("GOTACH_DOWN"))
	if err != nil {
		return 300 * time.Millisecond
	}
	return d
}

// While the target is down, files wait.
func TestFaultDown(t *testing.T) {
	dir := t.TempDir()
	fleet(t, dir, 3, 2)
	r := newReceiver(t)
	o := r.options(t, dir)
	address := r.Listener.Addr().String()
	r.Close()
	up := make(chan *httptest.Server)
	go func() {
		time.Sleep(down(t))
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			close(up)
			return
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: r}}
		s.Start()
		up <- s
	}()
	o.Tries = 1 << 20
	if err := push(t, o); err != nil {
		t.Error(err)
	}
	if s := <-up; s != nil {
		s.Close()
	}
	if err := same(profiled(t, dir), r.sums()); err != nil || o.Metrics.failures == 0 {
		t.Errorf("%v; %d failures", err, o.Metrics.failures)
	}
}

// After 429, nothing comes before the time that Retry-After says, a number or a date.
func TestFaultRetryAfter(t *testing.T) {
	dir := t.TempDir()
	fleet(t, dir, 2, 2)
	r := newReceiver(t)
	var until atomic.Int64
	refused := 0
	r.fault = func(w http.ResponseWriter, _ *http.Request, _ *pb.ProfilesData) bool {
		now := time.Now()
		if now.UnixNano() < until.Load() {
			t.Errorf("a request comes %v too early", time.Duration(until.Load()-now.UnixNano()))
		}
		if r.requests%3 != 2 || refused == 2 {
			return false
		}
		refused++
		wait := now.Add(time.Second)
		w.Header().Set("Retry-After", "1")
		if refused == 2 {
			wait = now.Truncate(time.Second).Add(2 * time.Second)
			w.Header().Set("Retry-After", wait.UTC().Format(http.TimeFormat))
		}
		until.Store(wait.UnixNano())
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	o := r.options(t, dir)
	if err := push(t, o); err != nil {
		t.Error(err)
	}
	if err := same(profiled(t, dir), r.sums()); err != nil || refused != 2 || r.repeats > 0 {
		t.Errorf("%v; %d requests refused, %d repeats", err, refused, r.repeats)
	}
}

// A receiver that takes only small messages gets all in small ones. A message with one sample that is too large is parked.
func TestFaultTooLarge(t *testing.T) {
	for _, most := range []int{1, 3, 0} {
		dir := t.TempDir()
		fleet(t, dir, 1, 2)
		r := newReceiver(t)
		r.fault = func(w http.ResponseWriter, _ *http.Request, d *pb.ProfilesData) bool {
			large := len(d.ResourceProfiles[0].ScopeProfiles[0].Profiles[0].Samples) > most
			if large {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			}
			return large
		}
		o := r.options(t, dir)
		if err := push(t, o); err != nil {
			t.Error(err)
		}
		want := profiled(t, dir)
		if most == 0 {
			clear(want)
		}
		if err := same(want, r.sums()); err != nil || r.repeats > 0 || most == 0 && o.Metrics.Files("refused") != 2 {
			t.Errorf("%d samples at most: %v; %d repeats, %d files refused", most, err, r.repeats, o.Metrics.Files("refused"))
		}
	}
}

// A file that is refused is parked, with the reason, and the others go. From there it can be sent again.
func TestFaultRefused(t *testing.T) {
	dir := t.TempDir()
	fleet(t, dir, 3, 2)
	damaged := filepath.Join(dir, "p2", "app.2.tach")
	b, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	want := profiled(t, dir)
	b[100] ^= 1
	if err := os.WriteFile(damaged, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t)
	r.fault = func(w http.ResponseWriter, _ *http.Request, d *pb.ProfilesData) bool {
		bad := strings.HasPrefix(origin(d, d.ResourceProfiles[0].ScopeProfiles[0].Profiles[0]), "101 ")
		if bad {
			http.Error(w, "no profiles of 101,\nplease", http.StatusBadRequest)
		}
		return bad
	}
	o := parts(r.options(t, dir))
	for range 2 { // what is parked is not tried again
		if err := push(t, o); err != nil {
			t.Error(err)
		}
	}
	if n, bad := o.Metrics.Files("refused"), o.Metrics.Files("unreadable"); n != 2 || bad != 1 || o.Metrics.Files("sent") != 3 {
		t.Errorf("%d files refused, %d damaged", n, bad)
	}
	for name, reason := range map[string]string{"p1/app.1.tach": "answers 400 Bad Request: no profiles of 101, please", "p1/app.2.tach": "400", "p2/app.2.tach": "checksum"} {
		text, err := os.ReadFile(filepath.Join(dir, "refused", name+".reason.txt"))
		if err != nil || !strings.Contains(string(text), reason) {
			t.Errorf("the reason for %s is %q (%v)", name, text, err)
		}
	}
	again := newReceiver(t)
	if err := push(t, again.options(t, filepath.Join(dir, "refused"))); err != nil {
		t.Error(err)
	}
	got := r.sums()
	for k, v := range again.sums() {
		got[k] = v
	}
	if len(again.got) != 2 || len(got) != 5 {
		t.Errorf("%d processes sent from the parked files, %d in all", len(again.got), len(got))
	}
	for k, v := range got {
		if want[k] != v {
			t.Errorf("%s: %v, want %v", k, v, want[k])
		}
	}
}

// If everything is refused since the address or the password is wrong, nothing is parked, and --once says so.
func TestFaultNotForUs(t *testing.T) {
	for _, code := range []int{401, 403, 404, 405, 308} {
		dir := t.TempDir()
		fleet(t, dir, 1, 1)
		r := newReceiver(t)
		r.fault = func(w http.ResponseWriter, _ *http.Request, _ *pb.ProfilesData) bool {
			w.WriteHeader(code)
			return true
		}
		o := r.options(t, dir)
		o.Tries = 2
		if err := push(t, o); err == nil || !strings.Contains(err.Error(), fmt.Sprint(" answers ", code)) || o.Metrics.Files("refused") > 0 {
			t.Errorf("%d: %v, %d files refused", code, err, o.Metrics.Files("refused"))
		}
	}
}

// A receiver that answers 200 but rejects profiles has not taken the file.
func TestFaultRejected(t *testing.T) {
	dir := t.TempDir()
	fleet(t, dir, 1, 1)
	r := newReceiver(t)
	r.fault = func(w http.ResponseWriter, _ *http.Request, _ *pb.ProfilesData) bool {
		partial := append([]byte{0x08, 0x02, 0x12, 0x08}, "too dull"...)
		_, _ = w.Write(append([]byte{0x0a, byte(len(partial))}, partial...))
		return true
	}
	o := r.options(t, dir)
	if err := push(t, o); err != nil {
		t.Error(err)
	}
	text, _ := os.ReadFile(filepath.Join(dir, "refused", "p0", "app.1.tach.reason.txt"))
	if !strings.Contains(string(text), "rejects 2 profiles: too dull") || o.Metrics.rejected != 2 {
		t.Errorf("%d rejected, the reason is %q", o.Metrics.rejected, text)
	}
}

// A connection that is cut while a request is on its way, or after the receiver has it but before it has answered, loses
// nothing. What comes twice has the same ids.
func TestFaultCut(t *testing.T) {
	for _, kept := range []bool{false, true} {
		dir := t.TempDir()
		fleet(t, dir, 2, 2)
		r := newReceiver(t)
		cuts := 0
		r.fault = func(w http.ResponseWriter, _ *http.Request, d *pb.ProfilesData) bool {
			if r.requests%3 == 1 {
				return false
			}
			cuts++
			if kept {
				r.keep(d, 0)
			}
			if r.requests%3 == 2 { // in the answer
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("0123456789"))
				w.(http.Flusher).Flush()
			}
			panic(http.ErrAbortHandler)
		}
		o := parts(r.options(t, dir))
		if err := push(t, o); err != nil {
			t.Error(err)
		}
		if err := same(profiled(t, dir), r.sums()); err != nil || cuts < 4 || (r.repeats > 0) != kept {
			t.Errorf("%v; %d cuts, %d repeats", err, cuts, r.repeats)
		}
		t.Logf("kept %v: %d requests, %d cuts, %d repeats", kept, r.requests, cuts, r.repeats)
	}
}

// A server that goes away in the middle of a request's body.
func TestFaultCutInBody(t *testing.T) {
	dir := t.TempDir()
	fleet(t, dir, 2, 2)
	r := newReceiver(t)
	cuts := atomic.Int64{}
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	go func() {
		for {
			c, err := proxy.Accept()
			if err != nil {
				return
			}
			if cuts.Add(1) <= 3 {
				_, _ = c.Read(make([]byte, 100))
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
				continue
			}
			go relay(c, r.Listener.Addr().String())
		}
	}()
	direct := r.URL
	r.URL = "http://" + proxy.Addr().String()
	o := r.options(t, dir)
	r.URL = direct
	if err := push(t, o); err != nil {
		t.Error(err)
	}
	if err := same(profiled(t, dir), r.sums()); err != nil || o.Metrics.failures != 3 || r.repeats > 0 {
		t.Errorf("%v; %d failures, %d repeats", err, o.Metrics.failures, r.repeats)
	}
}

// relay connects a connection with a server.
func relay(c net.Conn, to string) {
	defer c.Close()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer s.Close()
	go func() {
		_, _ = c.(*net.TCPConn).ReadFrom(s)
		c.Close()
	}()
	_, _ = s.(*net.TCPConn).ReadFrom(c)
}

// A file that the receiver cannot handle does not hold up the others.
func TestFaultPoison(t *testing.T) {
	dir := t.TempDir()
	fleet(t, dir, 3, 2)
	r := newReceiver(t)
	r.fault = func(w http.ResponseWriter, _ *http.Request, d *pb.ProfilesData) bool {
		bad := strings.HasPrefix(origin(d, d.ResourceProfiles[0].ScopeProfiles[0].Profiles[0]), "100 ")
		if bad {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return bad
	}
	o := r.options(t, dir)
	o.Tries = 5
	if err := push(t, o); err == nil || o.Metrics.Files("sent") != 4 || o.Metrics.Files("refused") != 0 {
		t.Errorf("%v; %d files sent, %d refused", err, o.Metrics.Files("sent"), o.Metrics.Files("refused"))
	}
	want := profiled(t, dir)
	for k := range want {
		if strings.HasPrefix(k, "100 ") {
			delete(want, k)
		}
	}
	if err := same(want, r.sums()); err != nil {
		t.Error(err)
	}
}
