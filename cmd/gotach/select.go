package main

import (
	"strconv"
	"sync/atomic"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

// selectFlags are the flags that select samples, for the commands that take a part of a profile.
type selectFlags struct {
	labels, states, goroutines, peers []string
	since, until                      string
}

// selectHelp names these flags in the help of each such command.
const selectHelp = `"gotach help select" explains --label, --state, --goroutine, --peer, --since and --until.`

// add adds the flags to a command.
func (fl *selectFlags) add(cmd *cobra.Command) {
	fl.addGoroutines(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&fl.peers, "peer", nil, "only waits for `ADDRESS`, such as 10.2.3.4:5432 or a file")
	f.StringVar(&fl.since, "since", "", "only samples after `TIME`, such as 10s or -30s")
	f.StringVar(&fl.until, "until", "", "only samples before `TIME`")
	completeAvailable(cmd, "peer", func(a *available) []string { return a.peers })
}

// addGoroutines adds the flags that do not select by time.
func (fl *selectFlags) addGoroutines(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&fl.labels, "label", nil, "only goroutines with the pprof label `KEY=VALUE`, or of a process, such as host=web-1")
	f.StringArrayVar(&fl.states, "state", nil, "only samples in the state `NAME`, such as running or blocked")
	f.StringArrayVar(&fl.goroutines, "goroutine", nil, "only the goroutine with this `ID`")
	completeSelection(cmd)
}

// set checks the flags and sets o.Select, if there are any. cmd is the command's name, for errors.
func (fl *selectFlags) set(cmd string, o *formats.Options) error {
	var sel stream.Selection
	for _, text := range fl.labels {
		l, err := stream.ParseLabel(text)
		if err != nil {
			return usagef("%s: --label: %w", cmd, err)
		}
		sel.Labels = append(sel.Labels, l)
	}
	sel.States, sel.Peers = fl.states, fl.peers
	for _, text := range fl.goroutines {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return usagef("%s: --goroutine %q: it must be a number", cmd, text)
		}
		sel.Goroutines = append(sel.Goroutines, id)
	}
	var err error
	if sel.Since, err = stream.ParseMoment(fl.since); err != nil {
		return usagef("%s: --since: %w", cmd, err)
	}
	if sel.Until, err = stream.ParseMoment(fl.until); err != nil {
		return usagef("%s: --until: %w", cmd, err)
	}
	if !sel.Empty() {
		sel.Found = new(atomic.Bool)
		o.Select = &sel
	}
	return nil
}
