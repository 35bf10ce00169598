package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/source"
	"github.com/spf13/cobra"
)

func newWhy(e *env) *cobra.Command {
	var o formats.Options
	var asJSON bool
	var choice selectFlags
	cmd := &cobra.Command{
		Use:   "why FILE...",
		Short: "Say what is wrong, in sentences",
		Long: `Say what is wrong, in sentences: the cause, the place, its cost, since when, how certain it is, and
which command shows more. The most costly comes first, as a share of the time of requests if there are
any, else of the time of all goroutines that were not idle. A leak's share is its part of
all goroutines.

Kinds are leak, cpu, gc, lock, pool, peer, channel, straggler, serial, compute, chatty, fsync, dns,
tls, connect and sleep; idle and profile are no faults of the program. A healthy program has none. The
first five findings begin gotach report. When each is told:
` + docs + `findings.md

` + selectHelp,
		Example: `  gotach why app.tach
  gotach why app.*.tach --since -60s
  gotach why app.tach --json | jq -r '.findings[] | .kind + ": " + .text'`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := choice.set("why", &o); err != nil {
				return err
			}
			return e.read("why", args, o, func(in *formats.Input) error {
				list, err := e.findings(in, args)
				if err == nil {
					err = e.selected(args, &o) // before a word of what was not selected
				}
				if err != nil {
					return err
				}
				e.barDone()
				if asJSON {
					return e.printJSON(struct {
						Findings []findings.Finding `json:"findings"`
					}{list}, " ")
				}
				return e.print(whyText(in.Name, list, newPaint(e.stdout), min(width(e.stdout), whyWidth)))
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	choice.add(cmd)
	fromFlags(cmd, &o)
	return cmd
}

// findings finds what is wrong in a profile.
func (e *env) findings(in *formats.Input, paths []string) ([]findings.Finding, error) {
	survey, err := report.OpenSurvey(in.Source, report.Options{Series: true}, source.Usual().Read)
	if err != nil {
		return nil, err
	}
	return findings.OfSurvey(survey, typed(paths), math.MaxInt64)
}

const (
	// whyWidth is the width of the text, also where there is no terminal.
	whyWidth = 100
	// whyLines is the number of lines of all findings. Those for which there is no room are
	// counted.
	whyLines = 78
	// nothingWrong is what is said of a healthy program.
	nothingWrong = "Nothing stands out."
)

// whyText returns the findings as text:
//
//	app.tach: 2 findings
//
//	1. lock, 49 % (inferred): Requests wait for the lock r.mu …
//	   77 waits, the longest 155ms
//	   gotach locks app.tach
func whyText(name string, list []findings.Finding, paint paint, width int) []byte {
	var b bytes.Buffer
	head := plural(int64(findings.Problems(list)), "finding")
	if findings.Problems(list) == 0 {
		head = strings.ToLower(nothingWrong[:1]) + nothingWrong[1:]
	}
	printf(&b, "%s %s\n", paint.bold(name+":"), head)
	for i := range list {
		text := oneFinding(i+1, &list[i], paint, width)
		if bytes.Count(b.Bytes(), []byte("\n"))+bytes.Count(text, []byte("\n"))+1 > whyLines {
			printf(&b, "\n… and %d more; --json has them\n", len(list)-i)
			break
		}
		b.WriteByte('\n')
		b.Write(text)
	}
	return b.Bytes()
}

// mostEvidence is the number of lines of a finding.
const mostEvidence = 6

// oneFinding returns a finding with its evidence.
func oneFinding(number int, x *findings.Finding, paint paint, width int) []byte {
	var b bytes.Buffer
	head := findingHead(number, x, true)
	lines := findingLines(head, x, paint, width)
	for _, l := range lines {
		printf(&b, "%s\n", l)
	}
	left := max(1, mostEvidence-1-len(lines))
	for i, l := range x.Evidence {
		if i == left {
			break
		}
		printf(&b, "   %s\n", paint.dim(cut(l, width-3)))
	}
	printf(&b, "   %s\n", x.Command)
	return b.Bytes()
}

// findingLines returns a finding's sentences, with a head before them.
func findingLines(head string, x *findings.Finding, paint paint, width int) []string {
	lines := wrap(head+x.Text, width, 3)
	lines[0] = paint.bold(head) + strings.TrimPrefix(lines[0], head)
	return lines
}

// findingHead returns what stands before a finding's text.
func findingHead(number int, x *findings.Finding, sure bool) string {
	head := fmt.Sprintf("%d. %s", number, x.Kind)
	if x.Share > 0 {
		head += fmt.Sprintf(", %.0f %%", 100*x.Share)
	}
	switch {
	case x.Note:
		head += " (no fault)"
	case sure:
		head += " (" + x.Sure + ")"
	}
	return head + ": "
}
