package main

import (
	"bytes"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if isChild() {
		os.Exit(beChild())
	}
	if err := bench(os.Stdout, os.Stderr, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench writes the table to out and its progress to progress.
func bench(out, progress io.Writer, args []string) error {
	var s Setting
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(progress)
	counts := f.String("goroutines", "10,1000,10000,100000", "numbers of waiting goroutines, separated by commas")
	names := f.String("profilers", "", "measure only profilers whose name contains one of these words, separated by commas")
	f.IntVar(&s.Rate, "rate", 1000, "ticks a second, for profilers with a variable rate")
	f.IntVar(&s.Pairs, "pairs", 20, "number of pairs of windows with and without the profiler")
	f.DurationVar(&s.Window, "window", 500*time.Millisecond, "duration of each window")
	f.DurationVar(&s.Settle, "settle", 500*time.Millisecond, "time from the start of a session to its window")
	cost := f.Bool("cost", false, "measure gotach's cost from outside instead; 0 goroutines is an idle server")
	budget := f.Float64("budget", 1, "with -cost: gotach's budget, in percent of the machine's CPU")
	latency := f.Bool("latency", false, "measure how long the requests of an HTTP server take instead")
	load := f.Float64("load", 0.4, "with -cost: the share of each core that the load uses")
	if err := f.Parse(args); err != nil {
		return err
	}
	if s.Rate < 1 || s.Pairs < 1 || s.Window <= 0 || s.Settle < 0 || f.NArg() > 0 {
		return fmt.Errorf("-rate, -pairs and -window must be above 0, -settle must not be negative, and there must be no other arguments")
	}
	if *cost {
		return costs(out, progress, *counts, CostSetting{Rate: s.Rate, Budget: *budget, Pairs: s.Pairs, Window: s.Window, Settle: s.Settle, Load: *load})
	}
	if *latency && *names == "" {
		*names = latencyProfilers
	}
	var kinds []profilerKind
	for _, k := range profilers {
		if slices.ContainsFunc(strings.Split(*names, ","), func(word string) bool { return strings.Contains(k.name, word) }) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return fmt.Errorf("-profilers: no profiler's name contains any of %q", *names)
	}
	if *latency {
		return latencies(out, progress, kinds, s)
	}
	var settings []Setting
	for _, count := range strings.Split(*counts, ",") {
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return fmt.Errorf("-goroutines: %q is not a positive number", count)
		}
		for _, k := range kinds {
			s.Goroutines, s.Profiler = n, k.name
			settings = append(settings, s)
		}
	}
	var rows []row
	var errs []error
	begin := time.Now()
	for i, s := range settings {
		fmt.Fprintf(progress, "%d of %d: %s with %d goroutines …", i+1, len(settings), s.Profiler, s.Goroutines)
		r, err := run(s)
		if r.Counted > 0 && r.Counted < 1 {
			fmt.Fprintf(progress, " the session counts %.1f %% of the ticks …", 100*r.Counted)
		}
		fmt.Fprintf(progress, " %v\n", time.Since(begin).Round(time.Second))
		if err != nil {
			fmt.Fprintln(progress, err)
			errs = append(errs, err)
			continue
		}
		rows = append(rows, r)
	}
	if len(rows) > 0 {
		_, err := io.WriteString(out, table(rows))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// childVariable is set in the environment of a process that measures one row, to what it measures.
const childVariable = "GOTACH_BENCH"

// run measures a row in a separate process.
func run(s Setting) (r row, err error) {
	if err = child(s, "profilers", &r); err != nil {
		err = fmt.Errorf("%s with %d goroutines: %w", s.Profiler, s.Goroutines, err)
	}
	return r, err
}

// child starts a process that measures what, and decodes its result into r.
func child(setting any, what string, r any) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	var arg, out, complaints bytes.Buffer
	if err := gob.NewEncoder(&arg).Encode(setting); err != nil {
		return err
	}
	cmd := exec.Command(exe)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PROFILE_") { // these would change gotach's session
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, childVariable+"="+what)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &arg, &out, &complaints
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, complaints.Bytes())
	}
	return gob.NewDecoder(&out).Decode(r)
}

func isChild() bool { return os.Getenv(childVariable) != "" }

// beChild measures what the environment says and returns the exit code.
func beChild() int {
	var err error
	switch os.Getenv(childVariable) {
	case "cost":
		err = answer(measureCost)
	case "latency":
		err = answer(measureLatency)
	case "clients":
		err = answer(send)
	default:
		err = answer(measure)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// answer reads a setting from standard input and writes what measure returns to standard output.
func answer[S, R any](measure func(S) (R, error)) error {
	var s S
	if err := gob.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return err
	}
	r, err := measure(s)
	if err != nil {
		return err
	}
	return gob.NewEncoder(os.Stdout).Encode(r)
}
