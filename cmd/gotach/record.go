package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gotach/profiler/cmd/gotach/internal/attach"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/rotate"
	"github.com/spf13/cobra"
)

// The bounds of gotach record's flags.
const (
	minInterval, maxInterval = time.Millisecond, 10 * time.Second
	maxRecord                = 30 * 24 * time.Hour
)

// What they are if they are not set.
const (
	usualInterval = 10 * time.Millisecond
	usualBudget   = 5 // percent
)

func newRecord(e *env) *cobra.Command {
	var out, rotation, keep string
	var children, pause bool
	var d time.Duration
	o := attach.Options{}
	cmd := &cobra.Command{
		Use:   "record PID|NAME|-- COMMAND ARGS...",
		Short: "Record a Go program from outside, even one that already runs",
		Long: `Record a running Go program from outside: sample all its goroutines and write a profile for all other
commands. The program needs nothing of gotach and no symbols. It is not stopped and does not notice: gotach
only reads its memory. The rights and versions that this takes:
` + docs + `attach.md

NAME is the name of the program's executable. COMMAND is started and recorded until it ends, or for
the time of -d. gotach passes its signals on to COMMAND, and exits with COMMAND's exit code. With
--children the Go programs that COMMAND starts, and those that these start, are recorded too: each has a
file of its own, such as app-worker-4711.tach beside app.tach. COMMAND may be a script then.

A sample has the goroutine's id, state, labels, creator and stack with inlined calls, and which
lock, channel, group, connection or file it waits for (locks and groups from Go 1.26, connections and
files from Go 1.21). The kernel's perf events show what runs. Where they are not allowed, a running
goroutine has only its outermost function, under [stack not read], and which goroutines had a core is
guessed so that the sum is the CPU time of the process; gotach info says so. --pause needs no perf events: at each tick it
stops the threads that run by ptrace, each for some 20 µs, and reads what they call.

Recording ends after the time of -d, at Ctrl-C or with the program; each finishes the file. Meanwhile
other commands can read it, and gotach view and gotach top follow it. If ticks would cost more than
--budget, there are fewer.

--rotate writes many files, as PROFILE_ROTATE does: app.1.tach, app.2.tach and so on. The oldest ones
are deleted. Recording then goes on until Ctrl-C or the program's end, unless -d is set.`,
		Example: `  gotach record $(pidof app)
  gotach record app -d 5s --interval 2ms -o app.tach
  gotach record app --rotate 60s,100MB --keep 20
  gotach record -o app.tach -- ./app -listen :8080
  gotach record --children -o app.tach -- ./run.sh`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && (cmd.ArgsLenAtDash() != 0 || len(args) == 0) {
				return fmt.Errorf("record: %s, want a process or its name, or -- and a command; usage: gotach %s", plural(int64(len(args)), "argument"), cmd.Use)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkRecord(out, d, o); err != nil {
				return err
			}
			err := formats.Creatable(cmp.Or(out, "gotach.tach")) // before a command starts
			if err != nil && out == "" {
				err = fmt.Errorf("record: the profile cannot be made here; set a file with -o FILE: %w", err)
			}
			if err != nil {
				return err
			}
			if o.Rotate.Every, o.Rotate.Bytes, err = rotate.ParseSplit(rotation); err != nil {
				return usagef("record: --rotate %s: %w", rotation, err)
			}
			if o.Rotate.Keep, o.Rotate.KeepBytes, err = rotate.ParseKept(keep); err != nil {
				return usagef("record: --keep %s: %w", keep, err)
			}
			if children && cmd.ArgsLenAtDash() != 0 {
				return usagef("record: --children is for a command, after --")
			}
			if pause && cmd.ArgsLenAtDash() == 0 {
				return usagef("record: --pause is for a process that runs already")
			}
			endless := cmd.ArgsLenAtDash() == 0 || rotation != "none"
			if endless && !cmd.Flags().Changed("duration") {
				d = maxRecord
			}
			if cmd.ArgsLenAtDash() == 0 {
				return e.recordCommand(args, out, d, children, o)
			}
			pid, err := processNamed(args[0])
			if err != nil {
				return err
			}
			p, err := e.open(e.ctx, pid)
			if err != nil {
				return err
			}
			p.Pauses = pause
			ctx, cancel := context.WithTimeout(e.ctx, d)
			defer cancel()
			e.bar = e.progress("record")
			o.Progress = func(_ int64, at time.Duration, path string) {
				e.bar.name("record to " + path)
				e.bar.update(uint64(min(at, d)), uint64(d))
			}
			return e.record(ctx, p, out, e.stdout, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "write the profile to `FILE` (default: the program's name and .tach)")
	f.DurationVarP(&d, "duration", "d", 30*time.Second, "record for this `TIME`")
	f.DurationVar(&o.Interval, "interval", usualInterval, "the `TIME` between two ticks")
	f.Float64Var(&o.Budget, "budget", usualBudget, "let recording cost at most `PERCENT` of all cores of the machine")
	f.BoolVar(&pause, "pause", false, "instead of perf events, stop each thread that runs at a tick for an instant, to read what it calls")
	f.BoolVar(&children, "children", false, "also record the Go programs that COMMAND starts")
	f.StringVar(&rotation, "rotate", "none", "begin a new file after `LIMITS`: a time, a size or both, such as 60s,100MB")
	f.StringVar(&keep, "keep", "100,1GB", "with --rotate: keep `FILES`, a number of finished files, their size or both")
	return cmd
}

// checkRecord checks the flags.
func checkRecord(out string, d time.Duration, o attach.Options) error {
	switch {
	case d <= 0 || d > maxRecord:
		return usagef("record: -d %v: the time must be above 0 and at most %v", d, maxRecord)
	case o.Interval < minInterval || o.Interval > maxInterval:
		return usagef("record: --interval %v: it must be from %v to %v", o.Interval, minInterval, maxInterval)
	case !(o.Budget > 0 && o.Budget <= 100):
		return usagef("record: --budget %v: it must be above 0 and at most 100", o.Budget)
	case out == "-":
		return usagef("record: the profile must be a file; set it with -o FILE")
	}
	return nil
}

// record records a process until ctx ends, and says to w how it went.
func (e *env) record(ctx context.Context, p *attach.Process, out string, w *output, o attach.Options) error {
	out = cmp.Or(out, p.Name+".tach")
	o.Rotate.Deleting = func(paths []string) {
		e.warn(fmt.Errorf("record: %s of programs that were killed are deleted, because there are too many", plural(int64(len(paths)), "unfinished profile")))
	}
	if !p.Pauses { // a pause may have to wait for a disk
		runtime.GOMAXPROCS(1) // each tick would wake a second thread too, which finds nothing to do: at 1 kHz that is a third more CPU time
	}
	r, err := p.Record(ctx, out, o)
	e.barDone()
	if err == nil && r.NoPerf != nil {
		e.warn(fmt.Errorf("record: %w", r.NoPerf))
	}
	return recorded(p, out, w, r, err)
}

// recorded says to w how a recording went.
func recorded(p *attach.Process, out string, w *output, r *attach.Recording, err error) error {
	if err != nil {
		return named(out, err)
	}
	why := ""
	if r.Ended != nil {
		why = "; " + r.Ended.Error()
	}
	files := r.Files[len(r.Files)-1]
	all := quoted(files)
	if first := r.Files[0]; len(r.Files) > 1 {
		ext := filepath.Ext(out)
		files, all = fmt.Sprintf("%s to %s (%d files)", first, files, len(r.Files)), quoted(strings.TrimSuffix(out, ext))+".*"+ext
	}
	_, err = printf(w, "%s: %s of process %d (%s)%s\n%s of at most %s, %.2f %% moved while they were read and were left out\ngotach report %s shows where the time went.\n",
		files, duration(r.Duration.Round(time.Millisecond)), p.PID, p.Name, why, plural(r.Samples, "sample"), plural(int64(r.MaxGoroutines), "goroutine"), 100*float64(r.Torn)/float64(max(r.Samples+r.Torn, 1)), all)
	return err
}

// recordCommand starts a command and records it. The error has the command's exit code. What gotach
// says goes to standard error, also that there is no profile: the command may have been too short,
// or no Go program.
func (e *env) recordCommand(args []string, out string, d time.Duration, children bool, o attach.Options) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.stdin, e.stdout.w, e.stderr.w
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer func() {
		signal.Stop(signals)
		close(signals)
	}()
	e.grace.Store(int64(maxRecord)) // the command ends when it likes to
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	var p *attach.Process
	var err error
	ctx, cancel := context.WithTimeout(context.Background(), d)
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		cancel()
		ended <- err
	}()
	go func() {
		for s := range signals {
			if s == os.Interrupt && isInput(e) {
				continue // the terminal has sent it to the command too
			}
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	if children {
		err = e.recordChildren(ctx, cmd.Process.Pid, out, o)
	} else if p, err = e.openCommand(ctx, cmd.Process.Pid); err == nil {
		err = e.record(ctx, p, out, e.stderr, o)
	}
	if errors.Is(err, attach.ErrEnded) {
		err = errors.New("it ended before it could be read, or is no Go program")
	}
	if err != nil {
		e.warn(fmt.Errorf("record: %w; there is no whole profile of %s", err, args[0]))
	}
	exit := (*exec.ExitError)(nil)
	switch werr := <-ended; {
	case errors.As(werr, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return errExit(128 + int(status.Signal()))
		}
		return errExit(exit.ExitCode())
	case werr != nil:
		return fmt.Errorf("record: %w", werr)
	}
	return nil
}

// open opens a process, and warns if it has a library that is not read.
func (e *env) open(ctx context.Context, pid int) (*attach.Process, error) {
	p, err := attach.Open(ctx, pid)
	if err == nil && p.Second != "" {
		e.warn(fmt.Errorf("process %d (%s) has more than one library of Go: %s is not read", pid, p.Name, p.Second))
	}
	return p, err
}

// openCommand opens a command. As long as it is no Go program, it may become one, or load a library
// of Go: openCommand looks until ctx ends, and uses a twentieth of a core.
func (e *env) openCommand(ctx context.Context, pid int) (*attach.Process, error) {
	warn := time.After(5 * time.Second)
	for no := error(nil); ; {
		began := time.Now()
		p, err := e.open(ctx, pid)
		switch {
		case errors.Is(err, attach.ErrNotGo):
			no = err
		case err == nil || no == nil:
			return p, err
		default: // it has ended
			return nil, no
		}
		select {
		case <-ctx.Done():
			return nil, no
		case <-warn:
			e.warn(fmt.Errorf("record: %w; as long as it runs, gotach looks whether it becomes one or loads a library of Go", no))
		case <-time.After(20 * time.Since(began)):
		}
	}
}

// processNamed returns the one process whose executable has a name.
func processNamed(name string) (int, error) {
	pid, err := processCalled(name)
	if err == nil && pid == 0 {
		err = fmt.Errorf("there is no process %q: give a PID, the name of an executable that runs, or -- COMMAND to start one", name)
	}
	return pid, err
}

// processOf returns the process that text means if there is no file of this name: its id, or the
// name of its executable. It is 0 if there is none. It is an error if there are several. This
// process does not count.
func processOf(text string) (int, error) {
	if fi, err := os.Stat(text); err == nil && !fi.IsDir() {
		return 0, nil
	}
	return processCalled(text)
}

// processCalled is processOf, also if there is such a file.
func processCalled(text string) (int, error) {
	if pid, err := strconv.Atoi(text); err == nil && pid > 0 {
		return pid, nil
	}
	dirs, _ := os.ReadDir("/proc") // on Linux only
	var found []string
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", d.Name(), "exe"))
		comm, _ := os.ReadFile(filepath.Join("/proc", d.Name(), "comm"))
		if err == nil && strings.TrimSuffix(filepath.Base(exe), " (deleted)") == text || err != nil && strings.TrimSpace(string(comm)) == text {
			found = append(found, d.Name())
		}
	}
	switch len(found) {
	case 0:
		return 0, nil
	case 1:
		return strconv.Atoi(found[0])
	}
	return 0, fmt.Errorf("there are %d processes %q; give one PID: %s", len(found), text, strings.Join(found, ", "))
}

// orProcess says of a file that does not exist that there is no process of this name either.
func orProcess(text string, err error) error {
	if errors.Is(err, fs.ErrNotExist) && filepath.Base(text) == text {
		err = fmt.Errorf("%w, and no process has this name", err)
	}
	return err
}
