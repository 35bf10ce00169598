package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler"
	_ "github.com/gotach/profiler/export" // for PROFILE_EXPORT
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/spf13/cobra"
)

// maxDemo is the longest duration of a demo.
const maxDemo = time.Hour

func newDemo(e *env) *cobra.Command {
	var out string
	var d time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Profile a built-in workload and report on it",
		Long: `Profile a built-in workload, print a report, and show what to try next. The workload
has hot CPU, mutex contention, a channel pipeline, sleep, file and loopback I/O, and
garbage collection. The profile stays in FILE.`,
		Example: `  gotach demo
  gotach demo -d 10s -o /tmp/demo.tach`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return demo(e, out, d) },
	}
	cmd.Flags().StringVarP(&out, "output", "o", "demo.tach", "write the profile to `FILE`")
	cmd.Flags().DurationVarP(&d, "duration", "d", 3*time.Second, "run for this `TIME`")
	return cmd
}

func demo(e *env, out string, d time.Duration) error {
	if d <= 0 || d > maxDemo {
		return usagef("demo: -d %v: the time must be above 0 and at most %v", d, maxDemo)
	}
	if out == "" || out == "-" {
		return usagef("demo: the profile must be a file; set it with -o FILE")
	}
	for _, name := range []string{"PROFILE_OUT", "PROFILE_ROTATE"} { // they would override -o
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	goroutines := 0
	for _, p := range workload {
		goroutines += p.goroutines
	}
	fmt.Fprintf(e.stdout, "Profiling %d goroutines for %s …\n", goroutines, d)
	s, err := profiler.Open(profiler.Output(out))
	if err != nil {
		return named(out, err)
	}
	err = runWorkload(e.ctx, d)
	if serr := s.Stop(); serr != nil {
		return named(out, serr)
	}
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	in, err := formats.Open(out, formats.Options{})
	if err != nil {
		return named(out, err)
	}
	defer in.Close()
	p, err := in.Profile()
	if err != nil {
		return named(out, err)
	}
	return showDemo(e, out, p)
}

// showDemo prints the report and a line for each part of the workload.
func showDemo(e *env, out string, p *profile.Profile) error {
	o := profile.ReportOptions{By: profile.ByFunction, Sort: profile.SortSelf, Top: 12}
	r, err := profile.New(p, o)
	if err != nil {
		return err
	}
	t := &reportTable{paint: newPaint(e.stdout), width: width(e.stdout), o: o, r: r, p: p, name: out, format: "tach"}
	var b bytes.Buffer
	b.WriteByte('\n')
	b.Write(t.render())
	fmt.Fprintf(&b, "\n%s\n", t.paint.bold("What each part did"))
	for _, f := range findings(p) {
		fmt.Fprintf(&b, "  %-9s %-40s %s\n", f.part.name, f.part.does, f.text())
	}
	fmt.Fprintf(&b, `
%s
  gotach view %[2]s                         # look at all of it in a browser
  gotach report %[2]s --by state            # what goroutines waited for
  gotach report %[2]s --by goroutine        # the time of each goroutine
  gotach report %[2]s --focus demoMutex     # one part of the workload
  gotach convert %[2]s -o demo.pb.gz        # then: go tool pprof -http=: demo.pb.gz
  gotach convert %[2]s -o demo.folded       # for flame graphs; gotach formats lists more

  To profile your own program, add  defer profiler.Start().Stop()  to main and run it.
`, t.paint.bold("What to try next"), out)
	_, err = e.stdout.Write(b.Bytes())
	return err
}

// A finding is the profile of one part of the workload.
type finding struct {
	part   part
	wall   time.Duration
	states map[string]time.Duration
}

// findings adds up, for each part, the times of the stacks with the part's function.
func findings(p *profile.Profile) []finding {
	list := make([]finding, len(workload))
	for i := range workload {
		list[i] = finding{part: workload[i], states: map[string]time.Duration{}}
	}
	for i := range p.Records {
		r := &p.Records[i]
		for _, id := range r.Stack {
			if f := findPart(list, p.Frames[id].Func); f != nil {
				f.wall += r.Wall
				f.states[r.State] += r.Wall
				break
			}
		}
	}
	return list
}

// findPart returns the finding of the part that a function belongs to.
func findPart(list []finding, function string) *finding {
	for i := range list {
		// The name of a function literal begins with its function: main.demoPipeline.func1.
		_, name, ok := strings.Cut(function, "."+list[i].part.function)
		if ok && (name == "" || name[0] == '.') {
			return &list[i]
		}
	}
	return nil
}

// text returns the two states with the most time and their shares.
func (f *finding) text() string {
	if f.wall == 0 {
		return "no samples"
	}
	states := slices.SortedFunc(maps.Keys(f.states), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.states[b], f.states[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, s := range states[:min(len(states), 2)] {
		parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*float64(f.states[s])/float64(f.wall), s))
	}
	return strings.Join(parts, ", ")
}
