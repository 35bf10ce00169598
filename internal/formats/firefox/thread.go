package firefox

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/formats/runs"
	"github.com/gotach/profiler/internal/stream"
)

// A marker is an interval of a thread.
type marker struct {
	name       int // number of the string
	begin, end time.Duration
	category   int
	labels     string // "": a wait
}

// A point is a sample of a thread.
type point struct {
	at     time.Duration
	stack  int // -1: none
	weight time.Duration
	cpu    time.Duration // since the previous point
}

// pieces is the number of parts of a session at whose borders long runs are divided, so that the
// page can show a range of time that begins or ends within a run.
const pieces = 400

// thread writes a track as a thread.
func (e *encoder) thread(t *runs.Track, number int) {
	o := &e.out
	begin, end := time.Duration(0), e.End
	if len(t.Runs) > 0 {
		begin = t.Runs[0].Begin
		if t.Step == 0 {
			end = t.Runs[len(t.Runs)-1].End()
		}
	}
	type head struct {
		Name        string  `json:"name"`
		Process     string  `json:"processName"`
		ProcessType string  `json:"processType"`
		PID         string  `json:"pid"`
		TID         string  `json:"tid"`
		Main        bool    `json:"isMainThread"`
		Registered  float64 `json:"registerTime"`
		Ended       float64 `json:"unregisterTime"`
		Startup     float64 `json:"processStartupTime"`
		Shutdown    *int    `json:"processShutdownTime"`
		Paused      []int   `json:"pausedRanges"`
		Markers     bool    `json:"showMarkersInTimeline"`
	}
	millis := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	o.open(head{
		Name: t.Name, Process: e.program, ProcessType: "default", PID: e.pid, TID: strconv.Itoa(number + 1), Main: number == 0,
		Registered: millis(begin), Ended: millis(end), Paused: []int{}, Markers: true,
	})
	o.raw(`"samples":{`)
	points := e.points(t)
	o.column("time", len(points), func(b []byte, i int) []byte { return appendMillis(b, points[i].at) })
	o.column("stack", len(points), func(b []byte, i int) []byte {
		if points[i].stack < 0 {
			return append(b, "null"...)
		}
		return strconv.AppendInt(b, int64(points[i].stack), 10)
	})
	o.column("weight", len(points), func(b []byte, i int) []byte { return appendMillis(b, points[i].weight) })
	o.column("threadCPUDelta", len(points), func(b []byte, i int) []byte { return strconv.AppendInt(b, int64(points[i].cpu), 10) })
	o.raw(`"weightType":"tracing-ms",`)
	o.length(len(points))
	o.raw(`,"markers":{`)
	list := e.markers(t)
	o.column("name", len(list), func(b []byte, i int) []byte { return strconv.AppendInt(b, int64(list[i].name), 10) })
	o.column("startTime", len(list), func(b []byte, i int) []byte { return appendMillis(b, list[i].begin) })
	o.column("endTime", len(list), func(b []byte, i int) []byte { return appendMillis(b, list[i].end) })
	o.same("phase", len(list), "1") // an interval
	o.column("category", len(list), func(b []byte, i int) []byte { return strconv.AppendInt(b, int64(list[i].category), 10) })
	o.column("data", len(list), func(b []byte, i int) []byte {
		if list[i].labels == "" {
			return append(b, `{"type":"wait"}`...)
		}
		b = append(b, `{"type":"labels","labels":`...)
		b = append(b, quoted(list[i].labels)...)
		return append(b, '}')
	})
	o.length(len(list))
	o.raw("}")
}

// points returns the samples of a track. At the end of a goroutine's runs, and where there are none
// for some time, is a sample without stack and weight.
func (e *encoder) points(t *runs.Track) (list []point) {
	piece := max(e.Interval, e.End/pieces, 1)
	spent := time.Duration(0) // CPU time since the last point
	put := func(at time.Duration, stack int, weight, cpu time.Duration) {
		list = append(list, point{at, stack, weight, spent})
		spent = cpu
	}
	if t.Step != 0 {
		for from := 0; from < len(t.Runs); {
			to, sum := from, 0.0
			for ; to < len(t.Runs) && t.Runs[to].Begin == t.Runs[from].Begin; to++ {
				sum += float64(t.Runs[to].Wall)
			}
			if n := len(list); n > 0 && t.Runs[from].Begin > t.Runs[from-1].Begin+t.Step {
				put(t.Runs[from-1].Begin+t.Step, -1, 0, 0)
			}
			before := 0.0
			for i := from; i < to; i++ {
				r := &t.Runs[i]
				put(r.Begin+time.Duration(before/sum*float64(t.Step)), e.stack(r), r.Wall, r.CPU)
				before += float64(r.Wall)
			}
			from = to
		}
		if n := len(t.Runs); n > 0 {
			put(min(t.Runs[n-1].Begin+t.Step, max(e.End, list[len(list)-1].at)), -1, 0, 0)
		}
		return list
	}
	for i := range t.Runs {
		r := &t.Runs[i]
		stack, wall, cpu := e.stack(r), r.Wall, r.CPU
		for at := r.Begin; ; {
			n := min(wall, piece)
			c := min(cpu, n)
			put(at, stack, n, c)
			at, wall, cpu = at+n, wall-n, cpu-c
			if wall <= 0 {
				break
			}
		}
		if end := r.End(); i+1 == len(t.Runs) || t.Runs[i+1].Begin > end {
			put(end, -1, 0, 0)
		}
	}
	return list
}

// markers returns the waits and labels of a goroutine. Markers of one name do not overlap.
func (e *encoder) markers(t *runs.Track) (list []marker) {
	if t.Step != 0 {
		return nil
	}
	for i := range t.Runs {
		if r := &t.Runs[i]; r.Wall > 0 && stream.Waits(e.States[r.State]) {
			list = append(list, marker{e.text(e.States[r.State]), r.Begin, r.End(), e.tables.states[r.State].category, ""})
		}
	}
	for _, l := range t.Labels {
		list = append(list, marker{e.text("labels"), l.Begin, l.End, 0, labelsText(l.Labels)})
	}
	slices.SortStableFunc(list, func(a, b marker) int { return cmp.Compare(a.begin, b.begin) })
	return list
}

func labelsText(set map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		list = append(list, k+"="+set[k])
	}
	return strings.Join(list, ", ")
}
