package firefox

import (
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/formats/runs"
)

// An encoder writes a session.
type encoder struct {
	*runs.Session
	tables
	out          output
	pid, program string
}

// profile writes the file. The tables grow while threads are written, so they come last.
func (e *encoder) profile() {
	e.out.raw(`{"meta":`)
	e.meta()
	e.out.raw(`,"libs":[],"pages":[],"profilerOverhead":[],"counters":[`)
	if len(e.Tracks) > 0 {
		e.counter("goroutines", "Goroutines", "Number of goroutines", "blue", e.Alive)
		e.out.raw(",")
		e.counter("runnable", "Runnable goroutines", "Number of goroutines that wait for the Go scheduler", "orange", e.Runnable)
	}
	e.out.raw(`],"threads":[`)
	for i := range e.Tracks {
		if i > 0 {
			e.out.raw(",\n")
		}
		e.thread(&e.Tracks[i], i)
	}
	e.out.raw("],\n")
	e.shared()
	e.out.raw("}\n")
}

func (e *encoder) meta() {
	type entry struct {
		Label  string `json:"label"`
		Format string `json:"format"`
		Value  string `json:"value"`
	}
	type section struct {
		Label   string  `json:"label"`
		Entries []entry `json:"entries"`
	}
	type field struct {
		Key    string `json:"key"`
		Label  string `json:"label"`
		Format string `json:"format"`
	}
	type schema struct {
		Name         string   `json:"name"`
		TooltipLabel string   `json:"tooltipLabel"`
		TableLabel   string   `json:"tableLabel"`
		ChartLabel   string   `json:"chartLabel"`
		Display      []string `json:"display"`
		Fields       []field  `json:"fields"`
	}
	type units struct {
		Time     string `json:"time"`
		Delay    string `json:"eventDelay"`
		CPUDelta string `json:"threadCPUDelta"`
	}
	type meta struct {
		Version       int        `json:"version"`
		Preprocessed  int        `json:"preprocessedProfileVersion"`
		Interval      float64    `json:"interval"`
		StartTime     float64    `json:"startTime"`
		ProcessType   int        `json:"processType"`
		Product       string     `json:"product"`
		ImportedFrom  string     `json:"importedFrom"`
		Platform      string     `json:"oscpu,omitempty"`
		Stackwalk     int        `json:"stackwalk"`
		Debug         bool       `json:"debug"`
		Symbolicated  bool       `json:"symbolicated"`
		NotSearchfox  bool       `json:"sourceCodeIsNotOnSearchfox"`
		OneStackType  bool       `json:"usesOnlyOneStackType"`
		Units         units      `json:"sampleUnits"`
		Categories    []category `json:"categories"`
		MarkerSchemas []schema   `json:"markerSchema"`
		Extra         []section  `json:"extra"`
	}
	places := []string{"marker-chart", "marker-table", "timeline-overview"}
	m := meta{
		Version: 24, Preprocessed: 66,
		Interval:  max(0.001, float64(e.Interval)/float64(time.Millisecond)),
		StartTime: float64(e.Start.UnixMicro()) / 1000,
		Product:   e.program, ImportedFrom: "gotach", Stackwalk: 1, Symbolicated: true, NotSearchfox: true, OneStackType: true,
		Units:      units{"ms", "ms", "ns"},
		Categories: e.tables.categories,
		MarkerSchemas: []schema{
			{"wait", "{marker.name}", "{marker.name}", "{marker.name}", places, []field{}},
			{"labels", "{marker.data.labels}", "{marker.data.labels}", "{marker.data.labels}", places, []field{{"labels", "Labels", "string"}}},
		},
	}
	about := section{Label: "gotach"}
	add := func(label, value string) {
		if value != "" {
			about.Entries = append(about.Entries, entry{label, "string", value})
		}
	}
	if s := e.Metadata.Session; s != nil {
		m.Platform = s.GOOS + "/" + s.GOARCH
		add("Program", strings.TrimSpace(s.Module+" "+s.Version))
		add("Go", s.GoVersion)
		add("Host", s.Host)
		add("Error", s.Error)
	}
	add("Left out", strings.Join(e.Left, "; "))
	m.Extra = []section{about}
	e.out.value(&m)
}

// counter writes a counter of the first thread's process. Its values are changes.
func (e *encoder) counter(name, label, description, color string, values []float64) {
	type format struct {
		Unit string `json:"unit"`
	}
	type row struct {
		Type   string `json:"type"`
		Source string `json:"source"`
		Format format `json:"format"`
		Label  string `json:"label"`
	}
	type display struct {
		Graph  string  `json:"graphType"`
		Unit   string  `json:"unit"`
		Color  string  `json:"color"`
		Marker *string `json:"markerSchemaLocation"`
		Weight int     `json:"sortWeight"`
		Label  string  `json:"label"`
		Rows   []row   `json:"tooltipRows"`
	}
	type head struct {
		Name        string  `json:"name"`
		Category    string  `json:"category"`
		Description string  `json:"description"`
		PID         string  `json:"pid"`
		MainThread  int     `json:"mainThreadIndex"`
		Display     display `json:"display"`
	}
	o := &e.out
	o.open(head{name, "gotach", description, e.pid, 0, display{
		"line-accumulated", "", color, nil, 20, label, []row{{"value", "accumulated", format{"number"}, label}},
	}})
	type change struct {
		at    time.Duration
		count int // in thousandths, so that rounding does not add up
	}
	list := []change{{}} // there are no goroutines before and after
	level := 0
	for i := range len(values) + 1 {
		next := 0
		if i < len(values) {
			next = int(values[i]*1000 + 0.5)
		}
		at := e.End / time.Duration(len(values)) * time.Duration(i)
		if n := len(list); next == level && n > 1 && list[n-1].count == 0 {
			list[n-1].at = at
		} else {
			list = append(list, change{at, next - level})
		}
		level = next
	}
	o.raw(`"samples":{`)
	o.column("time", len(list), func(b []byte, i int) []byte { return appendMillis(b, list[i].at) })
	o.column("count", len(list), func(b []byte, i int) []byte {
		return strconv.AppendFloat(b, float64(list[i].count)/1000, 'f', -1, 64)
	})
	o.length(len(list))
	o.raw("}")
}

// shared writes the tables.
func (e *encoder) shared() {
	o, t := &e.out, &e.tables
	o.raw(`"shared":{`)
	e.funcTable()
	e.frameTable()
	e.stackTable()
	o.raw(",\n", `"sources":{`)
	files := t.files.List
	o.ints("filename", files)
	o.same("id", len(files), "null")
	o.same("startLine", len(files), "1")
	o.same("startColumn", len(files), "1")
	o.same("sourceMapURL", len(files), "null")
	o.same("content", len(files), "null")
	o.length(len(files))
	o.raw(`,"sourceLocationTable":{"source":[],"line":[],"column":[],"length":0},`,
		`"resourceTable":{"lib":[],"name":[],"host":[],"type":[],"length":0},`,
		`"nativeSymbols":{"libIndex":[],"address":[],"name":[],"functionSize":[],"length":0},`, "\n", `"stringArray":[`)
	for i, s := range t.strings.List {
		if i > 0 {
			o.raw(",")
		}
		o.raw(quoted(s))
	}
	o.raw("]}")
}

// funcTable writes the functions, and numbers their files.
func (e *encoder) funcTable() {
	o, t := &e.out, &e.tables
	funcs := t.funcs.List
	sources := make([]int, len(funcs))
	for i, f := range funcs {
		if sources[i] = -1; t.strings.List[f.file] != "" {
			sources[i] = int(t.files.Of(f.file))
		}
	}
	o.raw(`"funcTable":{`)
	o.column("name", len(funcs), func(b []byte, i int) []byte { return strconv.AppendInt(b, int64(funcs[i].name), 10) })
	o.same("isJS", len(funcs), "false")
	o.same("relevantForJS", len(funcs), "false")
	o.same("resource", len(funcs), "-1")
	o.ints("source", sources)
	for _, name := range []string{"lineNumber", "columnNumber", "originalLocation"} {
		o.same(name, len(funcs), "null")
	}
	o.length(len(funcs))
}

func (e *encoder) frameTable() {
	o, frames := &e.out, e.tables.frames.List
	n := len(frames)
	o.raw(",\n", `"frameTable":{`)
	o.same("address", n, "-1")
	o.same("inlineDepth", n, "0")
	column := func(name string, value func(*frame) int) {
		o.column(name, n, func(b []byte, i int) []byte { return strconv.AppendInt(b, int64(value(&frames[i])), 10) })
	}
	column("category", func(f *frame) int { return f.category })
	column("subcategory", func(f *frame) int { return f.subcategory })
	column("func", func(f *frame) int { return f.function })
	o.column("line", n, func(b []byte, i int) []byte {
		if frames[i].line == 0 {
			return append(b, "null"...)
		}
		return strconv.AppendInt(b, int64(frames[i].line), 10)
	})
	for _, name := range []string{"nativeSymbol", "innerWindowID", "column", "originalLocation"} {
		o.same(name, n, "null")
	}
	o.length(n)
}

func (e *encoder) stackTable() {
	o, t := &e.out, &e.tables
	o.raw(",\n", `"stackTable":{`)
	o.ints("frame", t.stackFrame)
	o.column("prefixOffset", len(t.stackPrefix), func(b []byte, i int) []byte {
		if t.stackPrefix[i] < 0 {
			return append(b, '0')
		}
		return strconv.AppendInt(b, int64(i-t.stackPrefix[i]), 10)
	})
	o.length(len(t.stackFrame))
}
