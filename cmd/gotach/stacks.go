package main

import (
	"fmt"

	"github.com/gotach/profiler/internal/analyze/instant"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

func newStacks(e *env) *cobra.Command {
	var o formats.Options
	var choice selectFlags
	var at string
	var asJSON, grouped, pause bool
	cmd := &cobra.Command{
		Use:   "stacks FILE...|PID|NAME|CORE [EXECUTABLE]",
		Short: "Print every goroutine's stack, now or at an instant of a profile",
		Long: `Print the stack of every goroutine, in the format of runtime.Stack, so that tools for it read them.

For a PID, or the NAME of the executable of one process: what goroutines do now. The process can be any Go program, even without gotach and without
symbols. It is not stopped and does not notice. A goroutine that runs at this moment has no calls, unless
--pause is set: then its thread is stopped by ptrace for some 20 µs. The rights that this takes:
` + docs + `attach.md

For a CORE file: what goroutines did when the program ended. The executable is the one that the core
names, unless another is given. A goroutine has waited for at least the time shown.

For a profile FILE: what goroutines did at an instant. Without --at it is the instant at which the most goroutines
waited that are not idle. If a goroutine did not wait through the instant, its nearest
sample is shown, with its distance: "(not seen since 8ms)" or "(seen 3ms later)". Arguments of calls
and offsets in functions are not known.

A time is like +10s (since the start), -5s (before the end), 15:04:05.250 or
2006-01-02T15:04:05.250 (local time). --label, --state and --goroutine select goroutines.`,
		Example: `  gotach stacks app
  gotach stacks core ./app
  gotach stacks app.tach
  gotach stacks app.tach --at 14:03:07.250
  gotach stacks app.tach --at -5s --label tenant=a
  gotach stacks app.*.tach --at +90s --grouped
  gotach stacks app.tach --at +12.5s --json | jq '.goroutines[] | select(.waited_ns > 1e9)'`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				pid, err := processOf(args[0])
				if err == nil && pid > 0 {
					err = onlyFiles(cmd, args[0]+" is a process")
				}
				if err != nil {
					return err
				}
				if pid > 0 {
					return e.stacksNow(pid, grouped, asJSON, pause)
				}
			}
			if isCore(args[0]) {
				if err := onlyFiles(cmd, args[0]+" is a core"); err != nil {
					return err
				}
				return e.stacksOfCore(args, grouped, asJSON)
			}
			moment, err := stream.ParseMoment(at)
			if err != nil {
				return usagef("stacks: --at: %w", err)
			}
			io := instant.Options{At: moment, States: choice.states}
			choice.states = nil // those of other times matter too
			if err := choice.set("stacks", &o); err != nil {
				return err
			}
			err = e.read("stacks", args, o, func(in *formats.Input) error {
				s, err := samples(in, stream.Options{Labels: true, Creators: true})
				if err != nil {
					return err
				}
				find := instant.Find
				if at == "" {
					find = instant.FindBusiest
				}
				x, err := find(s, io)
				if err != nil {
					return err
				}
				e.barDone()
				return e.printStacks(x, stacksTitle(in.Name, x), grouped, asJSON)
			})
			if len(args) == 1 {
				err = orProcess(args[0], err)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&at, "at", "", "the instant, a `TIME` such as +12.5s, -5s or 14:03:07.250")
	f.BoolVar(&grouped, "grouped", false, "merge goroutines with equal stacks, as /debug/pprof/goroutine?debug=1 does")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	f.BoolVar(&pause, "pause", false, "for a PID: stop each thread that runs for an instant, to read what it calls")
	choice.addGoroutines(cmd)
	fromFlags(cmd, &o)
	return cmd
}

// onlyFiles returns an error if flags are set that are for profiles.
func onlyFiles(cmd *cobra.Command, but string) error {
	for _, flag := range []string{"at", "from", "lax", "label", "state", "goroutine"} {
		if cmd.Flags().Changed(flag) {
			return usagef("stacks: --%s is for profiles, and %s", flag, but)
		}
	}
	return nil
}

// printStacks prints stacks, as text below a title.
func (e *env) printStacks(x *instant.Instant, title []byte, grouped, asJSON bool) error {
	switch {
	case asJSON:
		return e.printJSON(x, " ")
	case grouped:
		return e.print(append(title, instant.Grouped(x.Goroutines)...))
	}
	return e.print(append(title, instant.Text(x.Goroutines)...))
}

// stacksTitle returns the line above the stacks:
//
//	app.tach: 52 goroutines at 2026-11-25 14:03:07.250, 12.5s after the start
func stacksTitle(name string, x *instant.Instant) []byte {
	why := ""
	if x.Busiest {
		why = "; the most goroutines waited then"
	}
	return fmt.Appendf(nil, "%s: %s at %s, %s after the start%s\n", name, plural(int64(len(x.Goroutines)), "goroutine"),
		x.Time.Format("2006-01-02 15:04:05.000"), duration(x.At), why)
}
