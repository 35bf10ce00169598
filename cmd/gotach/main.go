// Command gotach reads, reports and converts the profiles that package
// profiler records. See gotach help.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	collectLate()
	log.SetOutput(&output{w: os.Stderr}) // packages that know of no env log there
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// The exit codes.
const (
	exitOK    = 0
	exitError = 1 // an error in the data or of the system
	exitUsage = 2 // a wrong command line
	exitAbove = 3 // diff: --fail-above was exceeded
)

// run runs the command with the arguments and returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	e := &env{ctx: ctx, stdin: stdin, stdout: &output{w: stdout}, stderr: &output{w: stderr}, help: "gotach help"}
	defer e.onInterrupt(cancel)()
	cmd := newRoot(e)
	if len(args) > 0 && exists(args[0]) {
		if c, _, err := cmd.Find(args); err != nil || !c.Runnable() { // it is no command, or only a topic of help
			args = append([]string{"report"}, args...)
		}
	}
	cmd.SetArgs(args)
	c, err := cmd.ExecuteC()
	if c.Name() != "help" {
		e.help += strings.TrimPrefix(c.CommandPath(), "gotach")
	}
	return e.exit(err)
}

var errInterrupted = errors.New("interrupted")

// grace is the time in which an interrupted command must end, unless env.grace is longer.
const grace = 3 * time.Second

// onInterrupt cancels the context at the first SIGINT or SIGTERM, so that commands remove
// their temporary files. If the command does not end within grace, for example because it
// waits for standard input, onInterrupt exits. A second signal ends the command at once.
func (e *env) onInterrupt(cancel context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		select {
		case <-ended:
			return
		case <-signals:
		}
		signal.Stop(signals)
		cancel(errInterrupted)
		select {
		case <-ended:
		case <-time.After(max(grace, time.Duration(e.grace.Load()))):
			e.exit(errInterrupted)
			os.Exit(exitError)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}
