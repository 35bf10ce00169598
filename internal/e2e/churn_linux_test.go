package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// churnRate is how many goroutines a second TestChurn's program starts, churnLife how long each lives.
const (
	churnRate = 5000
	churnLife = 20 * time.Millisecond
)

func init() { programs["GOTACH_TEST_CHURN"] = runChurn }

// runChurn is a program that starts many goroutines, each with a label of its own, as a server does
// that labels requests with random ids.
func runChurn() {
	d, err := time.ParseDuration(os.Getenv("GOTACH_TEST_CHURN"))
	if err != nil {
		panic(err)
	}
	var s *profiler.Session
	if os.Getenv("PROFILE_OUT") != "" {
		if s, err = profiler.Open(); err != nil {
			panic(err)
		}
	}
	var out soaked
	room := make(chan struct{}, 2000) // bounds the living goroutines on a slow machine
	for begin := time.Now(); time.Since(begin) < d; time.Sleep(time.Millisecond) {
		for due := uint64(time.Since(begin).Seconds() * churnRate); out.Goroutines < due; out.Goroutines++ {
			room <- struct{}{}
			go request(out.Goroutines, room)
		}
	}
	for range cap(room) {
		room <- struct{}{}
	}
	stopping := time.Now()
	if err := s.Stop(); err != nil {
		panic(err)
	}
	out.Stop = time.Since(stopping)
	if s != nil {
		out.Samples, out.Files = s.Stats().Samples, s.Files()
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
}

func request(n uint64, room chan struct{}) {
	defer func() { <-room }()
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("request", strconv.FormatUint(testenv.Mix(n), 36))))
	left(int(n%20), n)
	time.Sleep(churnLife)
}

// TestChurn runs a program that starts 5,000 goroutines a second, each with a unique label. The file must
// have creator and label of every goroutine in it, take at most 24 bytes for a goroutine and 6 for a
// sample, and the profiler's memory must be flat, at most 40 MB: 10 MB of the heap are in use, and GOGC=100
// lets the heap grow to twice that. Mappings are the rest.
//
// GOTACH_CHURN sets the time. Sizes and memory are checked only after 30 s, because they have a fixed part.
func TestChurn(t *testing.T) {
	d := 3 * time.Second
	if v := os.Getenv("GOTACH_CHURN"); v != "" {
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	var cmds [2]*exec.Cmd // without and with the profiler
	var stdout, stderr [2]bytes.Buffer
	for i, path := range []string{"", filepath.Join(t.TempDir(), "x.tach")} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "GOTACH_TEST_CHURN="+d.String(), "PROFILE_SOURCE=auto", "PROFILE_OUT="+path, "GOCOVERDIR="+t.TempDir())
		cmd.Stdout, cmd.Stderr = &stdout[i], &stderr[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		cmds[i] = cmd
	}
	var more []int64 // additional memory of the profiled program, in the last two thirds of the time
	for begin, now := time.Now(), time.Now(); now.Sub(begin) < d-time.Second; now = time.Now() {
		if plain, profiled := rss(cmds[0].Process.Pid), rss(cmds[1].Process.Pid); now.Sub(begin) > d/3 {
			more = append(more, profiled-plain)
		}
		time.Sleep(d / 600)
	}
	var said [2]soaked
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, &stderr[i])
		}
		if err := json.Unmarshal(stdout[i].Bytes(), &said[i]); err != nil {
			t.Fatalf("%v: %q", err, &stdout[i])
		}
	}
	if s := stderr[1].String(); s != "" && !strings.Contains(s, "gotach: sampling with the portable source") {
		t.Errorf("the program prints: %s", s)
	}
	native := !strings.Contains(stderr[1].String(), "portable") // the portable source may not see labels
	c := readChurn(t, said[1].Files[0], native)

	const mb = 1 << 20
	half := len(more) / 2
	early, late := median(more[:half]), median(more[half:])
	t.Logf("%d goroutines in %v, %d of them in the file, %d samples; memory of the profiler %.1f MB, then %.1f MB; Stop took %v",
		said[1].Goroutines, d, c.goroutines, c.samples, float64(early)/mb, float64(late)/mb, said[1].Stop)
	t.Logf("a file of %d bytes: %.2f bytes for a sample, %.2f for a goroutine, %d for the tables",
		c.size, float64(c.sampleBytes)/float64(c.samples), float64(c.recordBytes)/float64(c.goroutines), c.size-c.sampleBytes-c.recordBytes)
	// The budget decides how many goroutines are visited, and on a busy machine it is less than half.
	if native && c.goroutines < said[1].Goroutines/10 {
		t.Errorf("only %d of %d goroutines are in the file", c.goroutines, said[1].Goroutines)
	}
	if d < 30*time.Second || !native {
		return
	}
	if most := 24*int64(c.goroutines) + 6*c.samples; c.size > most {
		t.Errorf("the file has %d bytes, more than %d", c.size, most)
	}
	if late > 40*mb || d >= time.Minute && late > early+8*mb {
		t.Errorf("the profiler's memory is %d bytes, then %d", early, late)
	}
}

// churned is what TestChurn finds in a file.
type churned struct {
	goroutines                     uint64 // those of request that have samples
	samples                        int64
	size, sampleBytes, recordBytes int64
}

// readChurn reads the file. Every goroutine of request must have its creator, and one label that no other
// has.
func readChurn(t *testing.T, path string, native bool) (c churned) {
	t.Helper()
	r, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.size, c.sampleBytes, c.samples = r.Size(), r.SampleBytes(), int64(r.Header().Samples)
	for _, text := range r.MetadataObjects() {
		var s struct {
			Kind string `json:"gotach"`
			tachyon.Section
		}
		if json.Unmarshal([]byte(text), &s) == nil && s.Kind == tachyon.KindRecords {
			c.recordBytes = s.Length
		}
	}
	is := make([]bool, len(r.Frames())) // frames of request after it has set its label
	for i, f := range r.Frames() {
		is[i] = strings.HasSuffix(f.Func, "e2e.request")
	}
	sampled := map[uint64]bool{} // goroutines that had a sample in churnLife's sleep
	for s, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(s.Stack); n > 1 && s.Stack[n-1] < uint32(len(is)) && is[s.Stack[n-1]] && strings.HasPrefix(r.Frames()[s.Stack[0]].Func, "[sleep]") {
			sampled[s.Thread] = true
		}
	}
	c.goroutines = uint64(len(sampled))
	creators, labels := map[uint64]bool{}, map[uint64]string{}
	for g, err := range r.Goroutines() {
		if err != nil {
			t.Fatal(err)
		}
		if !sampled[g.ID] {
			continue
		}
		if strings.HasSuffix(g.CreatedBy, "e2e.runChurn") {
			creators[g.ID] = true
		}
		for _, l := range g.Labels {
			if v := l.Labels["request"]; v != "" {
				labels[g.ID] = v
			}
		}
	}
	unique := map[string]bool{}
	for _, v := range labels {
		unique[v] = true
	}
	if len(creators) != len(sampled) {
		t.Errorf("%d of %d goroutines have their creator", len(creators), len(sampled))
	}
	if native && (len(labels) != len(sampled) || len(unique) != len(sampled)) {
		t.Errorf("%d of %d goroutines have a label, and there are %d labels", len(labels), len(sampled), len(unique))
	}
	return c
}
