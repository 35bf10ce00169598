package formats

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gotach/profiler/internal/formats/spx"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
)

var spxReport = &Format{
	Name:       "spx",
	Doc:        "full report of SPX, PHP's profiler: .json and .txt.gz",
	Extensions: []string{".spx"},
	Series:     true,
	Directory:  true,
	sniff:      spx.Sniff,
	sniffDir:   func(path string) bool { keys, _ := spx.Keys(path); return len(keys) > 0 },
	open: func(s *source, o *Options) (content, error) {
		switch {
		case s.Path == "":
			return nil, errors.New("an SPX report is two files: give the name of one of them, not a stream")
		case !s.dir:
			return openSPX(s.Path, o)
		}
		keys, err := spx.Keys(s.Path)
		switch {
		case err != nil:
			return nil, err
		case len(keys) == 0:
			return nil, errors.New("no SPX report in the directory")
		case len(keys) > 1:
			return nil, fmt.Errorf("%d SPX reports are in the directory, %s among them: give the name of one", len(keys), keys[0]+".json")
		}
		return openSPX(filepath.Join(s.Path, keys[0]), o)
	},
	write: func(t *target, in *Input, o *Options) error {
		src, err := in.Source(stream.Options{})
		if err != nil {
			return err
		}
		tl, err := spx.NewTimeline(src)
		if err != nil {
			return err
		}
		_, err = spx.Write(t.Dir, tl, spx.Options{PerGoroutine: o.Goroutines, Microseconds: o.Microseconds})
		return err
	},
}

// spxContent is a report. Its events can be read once, so it is opened anew for
// each purpose.
type spxContent struct {
	path   string
	meta   *spx.Metadata
	o      *Options
	series *reader.Reader // nil: not asked for yet
}

func openSPX(path string, o *Options) (content, error) {
	r, err := spx.Open(path)
	if err != nil {
		return nil, err
	}
	return &spxContent{path: path, meta: r.Metadata(), o: o}, r.Close()
}

// Close does nothing: the files are closed after each use.
func (c *spxContent) Close() error { return nil }

// Series makes samples of the report's calls, once.
func (c *spxContent) Series() (*reader.Reader, error) {
	if c.series != nil {
		return c.series, nil
	}
	names, err := c.functions()
	if err != nil {
		return nil, err
	}
	r, err := spx.Open(c.path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c.series, err = r.Samples(names)
	return c.series, err
}

func (c *spxContent) Profile() (*profile.Profile, error) {
	p, _, err := c.sums()
	return p, err
}

func (c *spxContent) sums() (*profile.Profile, []spx.FunctionTotals, error) {
	r, err := spx.Open(c.path)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	return r.Profile()
}

// Report adds to each function how often it was called and all its metrics. These
// are of the whole report, including stacks that o leaves out.
func (c *spxContent) Report(o profile.ReportOptions) (*profile.Report, error) {
	p, totals, err := c.sums()
	if err != nil {
		return nil, err
	}
	report, err := profile.New(p, o)
	if err != nil || o.By != "" && o.By != profile.ByFunction {
		return report, err
	}
	type key struct{ name, file string }
	rows := map[key]*profile.Row{}
	for i := range report.Rows {
		row := &report.Rows[i]
		rows[key{row.Name, row.File}] = row
	}
	for _, f := range totals {
		row := rows[key{f.Name, f.File}]
		if row == nil {
			continue
		}
		if row.Called == nil {
			row.Called, row.Metrics = new(int64), map[string]profile.Metric{}
		}
		*row.Called += f.Called
		for i, name := range c.meta.EnabledMetrics {
			m := row.Metrics[name] // two functions may have one name
			row.Metrics[name] = profile.Metric{Inclusive: m.Inclusive + f.Inc[i], Exclusive: m.Exclusive + f.Exc[i]}
		}
	}
	return report, nil
}

// spxEvent is a line of Dump.
type spxEvent struct {
	Function string             `json:"function"`
	Index    uint32             `json:"index"` // of the function
	Enter    bool               `json:"enter"`
	Line     uint32             `json:"line,omitempty"` // of the call site
	Metrics  map[string]float64 `json:"metrics"`
}

// Dump writes the events. The names of functions follow them in the file, so it is
// read twice.
func (c *spxContent) Dump(w io.Writer) error {
	names, err := c.functions()
	if err != nil {
		return err
	}
	r, err := spx.Open(c.path)
	if err != nil {
		return err
	}
	defer r.Close()
	return encoded(w, func(e *json.Encoder) error {
		out := spxEvent{Metrics: map[string]float64{}}
		for event, err := range r.Events() {
			if err != nil {
				return err
			}
			if int(event.Function) >= len(names) {
				return errors.New("the file changed while it was read")
			}
			out.Function, out.Index, out.Enter, out.Line = names[event.Function].Name, event.Function, event.Enter, event.Line
			for i, name := range c.meta.EnabledMetrics {
				out.Metrics[name] = event.Values[i]
			}
			if err := e.Encode(&out); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *spxContent) functions() ([]spx.Function, error) {
	r, err := spx.Open(c.path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for _, err := range r.Events() {
		if err != nil {
			return nil, err
		}
	}
	return r.Functions(), nil
}

func (c *spxContent) Info() ([]Field, error) {
	p, totals, err := c.sums()
	if err != nil {
		return nil, err
	}
	list := profileInfo(spxReport, p)
	for i := range list {
		if list[i].Key == "samples" {
			list[i].Label = "calls" // a report has no samples
		}
	}
	m := c.meta
	note := ""
	if m.CustomMetadata != nil {
		note = *m.CustomMetadata
	}
	return append(list,
		Field{"key", "key", m.Key, m.Key},
		Field{"functions", "functions", len(totals), fmt.Sprint(len(totals))},
		Field{"metrics", "metrics", m.EnabledMetrics, strings.Join(m.EnabledMetrics, " ")},
		Field{"host", "host", m.HostName, m.HostName},
		Field{"pid", "pid", m.ProcessPID, fmt.Sprint(m.ProcessPID)},
		Field{"peak_memory_bytes", "peak memory", m.PeakMemoryUsage, fmt.Sprint(m.PeakMemoryUsage, " bytes")},
		Field{"note", "note", note, note},
	), nil
}

func (c *spxContent) Verify() (string, error) {
	r, err := spx.Open(c.path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	events, open, deepest := 0, 0, 0
	for e, err := range r.Events() {
		if err != nil {
			return "", err
		}
		if events++; e.Enter {
			open++
		} else {
			open--
		}
		deepest = max(deepest, open)
	}
	return fmt.Sprintf("%d events of %d functions, at most %d calls inside one another, metrics %s",
		events, len(r.Functions()), deepest, strings.Join(c.meta.EnabledMetrics, " ")), nil
}
