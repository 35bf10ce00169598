package main

import (
	"strconv"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

// selectFlags are the flags that select samples, for the commands that take a part of a profile.
type selectFlags struct {
	labels, states, goroutines []string
	since, until               string
}

// selectHelp explains these flags in the help of each such command.
const selectHelp = `--label, --state, --goroutine, --since and --until select samples; a sample must fulfil all of
them. Several labels must all be there; of several states or goroutines one must fit. States
are those of "gotach report --by state". A time is like 10s (since the start), -30s (before
the end), 15:04:05 or 2006-01-02T15:04:05 (local time). A goroutine that has no label host, pid,
process, service or version of its own has that of its process, for files of many processes.`

// add adds the flags to a command.
func (fl *selectFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&fl.labels, "label", nil, "only samples of goroutines with the pprof label `KEY=VALUE`, or of the process with host=, service= or version=")
	f.StringArrayVar(&fl.states, "state", nil, "only samples in the state `NAME`, such as running or 'chan receive'")
	f.StringArrayVar(&fl.goroutines, "goroutine", nil, "only samples of the goroutine with this `ID`")
	f.StringVar(&fl.since, "since", "", "only what happened after `TIME`")
	f.StringVar(&fl.until, "until", "", "only what happened before `TIME`")
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
	sel.States = fl.states
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
		o.Select = &sel
	}
	return nil
}
