package main

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// docs is where the documents are.
const docs = "https://github.com/gotach/profiler/blob/main/docs/"

// helpWidth is the greatest length of a line of help.
const helpWidth = 80

// topics are what several commands have in common.
var topics = []*cobra.Command{
	{Use: "select", Short: "How --label, --state, --since and others select samples", Long: `Flags that select samples. A sample must match all kinds of flags that are given.

--label KEY=VALUE selects goroutines with a pprof label; with several, those that have all. In files
of many processes the labels host, pid, process, service and version are those of the process, unless
the goroutine has its own.

--state NAME selects what goroutines did, as "gotach report --by state" names it: running, runnable,
"no core", syscall, or what they waited for, such as "chan receive" and sleep. These names stand for
several states: "on CPU", "in syscalls", blocked, I/O, lock, channel, "other wait" and "syscall or C".

--goroutine ID selects a goroutine by its number. --peer ADDRESS selects waits for a connection or a
file, as "gotach report --by peer" names them: 10.2.3.4:5432, 10.2.3.4, :5432 or a path. Several
--state, --goroutine or --peer select what matches one of them.

--since and --until select a range of time. A time is like 10s (since the start), -30s (before the
end), 15:04:05 or 2006-01-02T15:04:05 (local time).

If nothing is selected, the command says what there is, and exits with 1.`},
	{Use: "core", Short: "Which commands read a core file, and what they show", Long: `report, locks, waits, stacks, info, verify, dump and convert read the core file of a Go program, as from
a crash with GOTRACEBACK=crash and "ulimit -c unlimited", or from gcore PID. The executable is the one
that the core names, or one whose path comes after it.

  gotach report core
  gotach locks core ./app
  gotach waits 'main\.serve$' core

A core is of one instant and has no times, so the commands show numbers of goroutines instead. In JSON and in files
of other formats 1 µs is one goroutine. stacks says how long a goroutine has waited at least. Commands about
duration, such as why, refuse a core.`},
	{Use: "source", Short: "Which source files are read, for the names of locks", Long: `A profile names the source files of its program. With --source DIR gotach reads those below DIR, and
no others. Without it gotach reads only Go files that have the named function at the named line, in
the module of the current directory, GOROOT or the module cache: a profile may come from anyone.

Without the source, locks have the names of functions, and holders are found only from lines that
were seen locking.`},
}

// setHelp adds the topics, and makes the lines of all help at most helpWidth long.
func setHelp(root *cobra.Command) {
	for _, t := range topics {
		topic := *t
		root.AddCommand(&topic)
	}
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Long = "Print the help of a command or a topic."
	print := help.Run
	help.Run, help.RunE = nil, func(cmd *cobra.Command, args []string) error {
		if _, _, err := root.Find(args); err != nil {
			return usagef("help: there is no command or topic %q", strings.Join(args, " "))
		}
		print(cmd, args)
		return nil
	}
	root.SetUsageTemplate(strings.NewReplacer(".LocalFlags.FlagUsages ", "(.LocalFlags.FlagUsagesWrapped 80) ", ".InheritedFlags.FlagUsages ", "(.InheritedFlags.FlagUsagesWrapped 80) ").Replace(root.UsageTemplate()))
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := cmd.Long
		if text == "" {
			text = cmd.Short
		}
		text = paragraphs(text, helpWidth) + "\n"
		if cmd.Runnable() || cmd.HasSubCommands() {
			text += "\n" + cmd.UsageString()
		}
		_, _ = io.WriteString(cmd.OutOrStdout(), text) // an error is that of the stream, which main reports
	})
}

// paragraphs breaks lines anew, so that none is longer than a width. A line that begins with a
// space stays as it is.
func paragraphs(text string, width int) string {
	var b strings.Builder
	at := 0 // columns of the present line
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == ' ' {
			if at > 0 {
				b.WriteByte('\n')
				at = 0
			}
			b.WriteString(line + "\n")
			continue
		}
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case at > 0 && at+1+n > width:
				b.WriteByte('\n')
				at = 0
			case at > 0:
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += n
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
