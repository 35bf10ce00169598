package profile

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

var update = flag.Bool("update", false, "write testdata/report.txt")

// session returns the samples of a recorded session: see internal/analyze/testdata/README.md.
func session(t *testing.T, name string) *stream.Source {
	t.Helper()
	r := must(reader.Open("../analyze/testdata/sessions/" + name + ".tach"))(t)
	t.Cleanup(func() { r.Close() })
	return source(t, r)
}

func source(t *testing.T, r *reader.Reader) *stream.Source {
	t.Helper()
	src := must(stream.New([]stream.File{{Stream: r}}, stream.Options{Labels: true, Creators: true, Objects: true}))(t)
	return src
}

// Whatever is kept apart, the records are what one adds up sample by sample.
func TestDetail(t *testing.T) {
	type parts struct {
		goroutine uint64
		system    bool
		state     string
		stack     string
		group     string
		key       uint32
	}
	type sums struct {
		count     int64
		wall, cpu time.Duration
	}
	group := func(s *stream.Sample) string { return fmt.Sprint(s.Goroutine % 5) }
	key := func(s *stream.Sample) uint32 { return s.Stack % 11 }
	for _, d := range []Detail{
		{}, {Labels: true, Goroutines: true, Series: true}, {Key: key, Series: true}, {Group: group, Key: key}, {Goroutines: true, Key: key},
	} {
		src, want := session(t, "fan-out"), map[parts]sums{}
		for s, err := range src.Samples() {
			if err != nil {
				t.Fatal(err)
			}
			k := parts{system: s.Interpreter != tachyon.User, state: src.State(s.Status, s.Stack), stack: fmt.Sprint(src.AppendStack(nil, s.Stack))}
			pseudo := s.Interpreter == tachyon.Process
			if s.NotSeen {
				k.state = src.State(0, s.Stack)
				pseudo = k.state != NotSeen
				k.system = pseudo
			}
			if d.Goroutines && !pseudo && !s.NotSeen {
				k.goroutine = s.Goroutine
			}
			if d.Group != nil && (!s.NotSeen || !pseudo) {
				k.group = group(s)
			}
			if d.Key != nil && !s.NotSeen {
				k.key = key(s)
			}
			x := want[k]
			if !s.NotSeen {
				x.count++
			}
			x.wall += s.Wall
			if s.Status&tachyon.OnCPU != 0 && !s.NotSeen {
				x.cpu += s.Wall
			}
			want[k] = x
		}
		p := must(FromStream(session(t, "fan-out"), d))(t)
		got := map[parts]sums{}
		for _, r := range p.Records {
			got[parts{r.Goroutine, r.System, r.State, fmt.Sprint(r.Stack), r.Group, r.Key}] = sums{r.Count, r.Wall, r.CPU}
			series := float32(0)
			for _, v := range r.Series[:max(0, len(r.Series)-1)] { // the last part is made as if it were as long as the others
				series += v
			}
			if d.Series && r.Wall > 0 && r.State != NotSeen && (series > 1.001*float32(r.Wall) || r.Wall > time.Second && series < 0.9*float32(r.Wall)) {
				t.Errorf("the series of %+v has %v ns", r, series)
			}
		}
		if len(got) != len(p.Records) || !maps.Equal(got, want) {
			t.Errorf("%+v: %s", d, cmp.Diff(want, got))
		}
	}
}

// Reports and trees of a real server are what they were when somebody looked at them last.
func TestReportOfSession(t *testing.T) {
	p := must(FromStream(session(t, "requests"), Detail{Goroutines: true, Series: true}))(t)
	var out strings.Builder
	for _, by := range Bys {
		for _, sort := range Sorts {
			r := must(New(p, ReportOptions{By: by, Sort: sort, Top: 6}))(t)
			fmt.Fprintf(&out, "by %s, %s: %v, %v on CPU, %v without a core, %v elsewhere, %d rows left\n", by, sort, r.Total, r.TotalCPU, r.NoCore, r.Elsewhere, r.Left)
			for _, row := range r.Rows {
				fmt.Fprintf(&out, "  %s %s:%d (%d-%d) self %v %v %v total %v %v %v, parts %.3g\n", row.Name, row.File, row.Line, row.FirstLine, row.LastLine,
					row.Self, row.SelfCPU, row.SelfNoCore, row.Total, row.TotalCPU, row.TotalNoCore, row.Series[:min(4, len(row.Series))])
			}
		}
	}
	tree := must(NewTree(p, ReportOptions{Top: 12}))(t)
	fmt.Fprintf(&out, "tree without %d\n%s", tree.NodesCut, treeText(tree.Nodes, " "))
	callers := must(NewCallers(p, ReportOptions{Sort: SortCPU, Top: 12, Ignore: regexp.MustCompile("^crypto/")}, regexp.MustCompile(`^syscall\.`)))(t)
	fmt.Fprintf(&out, "callers without %d\n%s", callers.NodesCut, treeText(callers.Nodes, " "))
	testenv.Golden(t, "testdata/report.txt", out.String(), *update)
}

// must returns what there is if there is no error.
func must[T any](x T, err error) func(interface{ Fatal(...any) }) T {
	return func(t interface{ Fatal(...any) }) T {
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}
