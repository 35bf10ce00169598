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
		os.Exit(child())
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
	f.Float64Var(&s.Budget, "budget", 1, "gotach's budget with the load, in percent of the machine's CPU")
	f.IntVar(&s.Pairs, "pairs", 20, "number of pairs of windows with and without the profiler")
	f.DurationVar(&s.Window, "window", 500*time.Millisecond, "duration of each window")
	f.DurationVar(&s.Settle, "settle", 500*time.Millisecond, "time from the start of a session to its window")
	if err := f.Parse(args); err != nil {
		return err
	}
	if s.Rate < 1 || s.Pairs < 1 || s.Window <= 0 || s.Settle < 0 || f.NArg() > 0 {
		return fmt.Errorf("-rate, -pairs and -window must be above 0, -settle must not be negative, and there must be no other arguments")
	}
	var settings []Setting
	for _, count := range strings.Split(*counts, ",") {
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return fmt.Errorf("-goroutines: %q is not a positive number", count)
		}
		for _, k := range profilers {
			if slices.ContainsFunc(strings.Split(*names, ","), func(word string) bool { return strings.Contains(k.name, word) }) {
				s.Goroutines, s.Profiler = n, k.name
				settings = append(settings, s)
			}
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
	if len(settings) == 0 {
		return fmt.Errorf("-profilers: no profiler's name contains any of %q", *names)
	}
	if len(rows) > 0 {
		_, err := io.WriteString(out, table(rows))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// childVariable is set in the environment of a process that measures one row.
const childVariable = "GOTACH_BENCH"

// run measures a row in a separate process.
func run(s Setting) (r row, err error) {
	exe, err := os.Executable()
	if err != nil {
		return r, err
	}
	var arg, out, complaints bytes.Buffer
	if err := gob.NewEncoder(&arg).Encode(s); err != nil {
		return r, err
	}
	cmd := exec.Command(exe)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PROFILE_") { // these would change gotach's session
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, childVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &arg, &out, &complaints
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%s with %d goroutines: %w\n%s", s.Profiler, s.Goroutines, err, complaints.Bytes())
	}
	err = gob.NewDecoder(&out).Decode(&r)
	return r, err
}

func isChild() bool { return os.Getenv(childVariable) != "" }

// child reads a Setting from standard input, writes the measured row to standard output and
// returns the exit code.
func child() int {
	var s Setting
	err := gob.NewDecoder(os.Stdin).Decode(&s)
	if err == nil {
		var r row
		if r, err = measure(s); err == nil {
			err = gob.NewEncoder(os.Stdout).Encode(r)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
