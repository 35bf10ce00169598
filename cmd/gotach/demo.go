package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gotach/profiler"
	_ "github.com/gotach/profiler/export" // for PROFILE_EXPORT
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

// maxDemo is the longest duration of a demo.
const maxDemo = time.Hour

// demoBudget is the default of PROFILE_BUDGET, in percent.
const demoBudget = 10

func newDemo(e *env) *cobra.Command {
	var out string
	var d time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Profile a built-in workload and report on it",
		Long: `Profile a built-in workload and print its report, as "gotach report" does. The workload has hot CPU,
mutex contention, a channel pipeline, sleep, file and loopback I/O, and garbage collection. The
profile stays in FILE. If PROFILE_BUDGET is not set, sampling may cost 10 % of the CPU.`,
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
	if err := formats.Creatable(out); err != nil {
		return err
	}
	for _, name := range []string{"PROFILE_OUT", "PROFILE_ROTATE"} { // they would override -o
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	printf(&b, "Profiling this for %s …\n\n", d)
	for _, p := range workload {
		printf(&b, "  %-9s %s\n", p.name, p.does)
	}
	if err := e.print(b.Bytes()); err != nil {
		return err
	}
	b.Reset()
	s, err := profiler.Open(profiler.Output(out), profiler.Budget(demoBudget))
	if err != nil {
		return named(out, err)
	}
	if s.Path() == "" {
		return errors.New("demo: PROFILE_SOURCE=off: no profile is taken")
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
	screen, err := e.newScreen(in, []string{out}, report.Options{Weight: report.Weights[0]}, true)
	if err != nil {
		return err
	}
	b.WriteString("\n")
	b.Write(screen.render())
	printf(&b, "\ngotach report %[1]s prints this again, gotach view %[1]s opens it in a browser.\n", quoted(out))
	if byGoRun() {
		b.WriteString("For the command gotach: go install ./cmd/gotach, or type go run ./cmd/gotach instead.\n")
	}
	b.WriteString("To profile your own program, add  defer profiler.Start().Stop()  to main and run it.\n")
	return e.print(b.Bytes())
}

// byGoRun reports whether "go run" made this program, so that there may be no command gotach.
func byGoRun() bool {
	path, err := os.Executable()
	return err == nil && strings.Contains(filepath.ToSlash(path), "/go-build")
}
