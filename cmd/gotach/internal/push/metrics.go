package push

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// Metrics are the counters of a Pusher and its target. All methods may be called from several
// goroutines at once.
type Metrics struct {
	mu       sync.Mutex
	start    time.Time
	files    map[string]int64 // by result
	bytes    int64            // of files that were sent
	requests map[int]int64    // by status code; 0: no answer
	body     int64            // bytes of requests, as sent
	rejected int64
	batches  int64
	failures int64
	seconds  float64
	ready    int
	oldest   time.Time // of ready files; zero: none
	live     int
	success  time.Time
	wait     time.Duration
	cursor   int64
}

// NewMetrics returns counters that are all 0.
func NewMetrics() *Metrics {
	return &Metrics{start: time.Now(), files: map[string]int64{"sent": 0, "refused": 0, "unreadable": 0, "vanished": 0}, requests: map[int]int64{}}
}

// Request counts a request of a target: the status code of the answer, 0 if there was none, and the
// bytes of its body.
func (m *Metrics) Request(code int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[code]++
	m.body += bytes
}

// Rejected counts profiles or samples that the target took and threw away.
func (m *Metrics) Rejected(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejected += n
}

func (m *Metrics) file(result string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[result]++
	if result == "sent" {
		m.bytes += bytes
		m.success = time.Now()
	}
}

func (m *Metrics) batch(took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches++
	m.seconds += took.Seconds()
	if err != nil {
		m.failures++
	}
}

func (m *Metrics) queue(ready []entry, live int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready, m.live, m.oldest = len(ready), live, time.Time{}
	if len(ready) > 0 {
		m.oldest = ready[0].mod
	}
}

func (m *Metrics) left(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ready = n; n == 0 {
		m.oldest = time.Time{}
	}
}

func (m *Metrics) waiting(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wait = d
}

func (m *Metrics) cursorError() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cursor++
}

// Files returns the number of files with a result: sent, refused, unreadable or vanished.
func (m *Metrics) Files(result string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.files[result]
}

// Bytes returns the size of the files that were sent.
func (m *Metrics) Bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// Write writes the counters in Prometheus' text format, version 0.0.4.
func (m *Metrics) Write(w io.Writer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := bufio.NewWriter(w)
	head := func(name, kind, help string) string {
		fmt.Fprintf(b, "# HELP gotach_push_%s %s\n# TYPE gotach_push_%[1]s %[3]s\n", name, help, kind)
		return "gotach_push_" + name
	}
	number := func(name, kind, help string, v float64) { fmt.Fprintf(b, "%s %v\n", head(name, kind, help), v) }
	seconds := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixMilli()) / 1000
	}
	name := head("files_total", "counter", "Files, by what became of them.")
	for _, result := range slices.Sorted(maps.Keys(m.files)) {
		fmt.Fprintf(b, "%s{result=%q} %d\n", name, result, m.files[result])
	}
	number("file_bytes_total", "counter", "Size of the files that were sent.", float64(m.bytes))
	name = head("requests_total", "counter", "Requests to the target, by status code; 0 means no answer.")
	for _, code := range slices.Sorted(maps.Keys(m.requests)) {
		fmt.Fprintf(b, "%s{code=\"%d\"} %d\n", name, code, m.requests[code])
	}
	number("request_bytes_total", "counter", "Size of the requests' bodies, compressed.", float64(m.body))
	number("rejected_total", "counter", "Profiles that the target took and then rejected.", float64(m.rejected))
	number("batches_total", "counter", "Batches that were tried.", float64(m.batches))
	number("batch_failures_total", "counter", "Batches that were tried and failed.", float64(m.failures))
	number("batch_seconds_total", "counter", "Time that the tries of batches took.", m.seconds)
	number("cursor_errors_total", "counter", "Times that the cursor could not be saved.", float64(m.cursor))
	number("ready_files", "gauge", "Finished files that are not sent yet.", float64(m.ready))
	age := 0.0
	if !m.oldest.IsZero() {
		age = time.Since(m.oldest).Seconds()
	}
	number("oldest_ready_seconds", "gauge", "Age of the oldest file that was not sent at the latest look into the directory.", age)
	number("live_files", "gauge", "Files that programs are writing.", float64(m.live))
	number("backoff_seconds", "gauge", "The present wait after a failure; 0 if there is none.", m.wait.Seconds())
	number("last_success_timestamp_seconds", "gauge", "When a file was sent for the last time, since 1970; 0: never.", seconds(m.success))
	number("start_timestamp_seconds", "gauge", "When gotach push started, since 1970.", seconds(m.start))
	return b.Flush()
}
