//go:build linux && (amd64 || arm64)

package harmless

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/testenv"
	"golang.org/x/sys/unix"
)

// TestHarmTable runs the ways to end with the native source, where the program is written in Go alone. TestPeerHarmTable has the other
// cells of the tables of docs/harm.md, and writes all of them with -update.
func TestHarmTable(t *testing.T) {
	testenv.Again(t)
	testenv.Long(t)
	harmTable(t, cellOfTest)
}

// cellOfTest reports whether a cell is for TestHarmTable. What a program does without a session is on the page.
func cellOfTest(s *harmSection, c *harmCase, source string) bool {
	return !c.c && c.flags == nil && !c.long && source == "native" && s.heading == ends
}

// harmSources are the columns of the tables.
var harmSources = []string{"", "native", "portable"}

// harmTable runs the cells that are chosen at 10 kHz, a few at once, and compares them with docs/harm.md.
func harmTable(t *testing.T, chosen func(s *harmSection, c *harmCase, source string) bool) {
	// A program inherits signals that are ignored here, as under nohup. It does not inherit those that have a handler.
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, s)
			defer signal.Stop(caught)
		}
	}
	programs := map[string]string{}
	program := func(c *harmCase) string {
		key := fmt.Sprint(c.c, c.flags)
		if programs[key] == "" {
			programs[key] = buildCase(t, c.c, c.flags...)
		}
		return programs[key]
	}
	rows, ran := harmRows(t), 0
	var all sync.WaitGroup
	free := make(chan bool, 4) // programs that run at once
	for i := range harmSections {
		s := &harmSections[i]
		for j := range s.cases {
			c := &s.cases[j]
			row := rows[c.what]
			if row == nil {
				row = make([]string, len(harmSources))
				rows[c.what] = row
			}
			for column, source := range harmSources {
				if !chosen(s, c, source) {
					continue
				}
				ran++
				bin := program(c)
				free <- true
				work := func() {
					defer func() { <-free }()
					c.cell(t, bin, source, &row[column], row[0])
				}
				if source == "" {
					work() // the others compare with it
				} else {
					all.Go(work)
				}
			}
		}
	}
	all.Wait()
	testenv.FailIf(t, ran < 15, "only %d runs", ran)
	testenv.Marked(t, harmPage, "tables", harmText(rows), *update)
}

// cell runs a case and compares it with a cell of the page, or replaces that with -update.
func (c *harmCase) cell(t *testing.T, bin, source string, cell *string, plain string) {
	got := c.run(t, bin, source)
	text := got.String()
	if source != "" { // otherwise there is nothing to compare with
		testenv.FailIf(t, text != plain, "%s, %s: %s, without the profiler %s\n%s", c.what, source, text, plain, got.stderr)
		text = "same; " + got.profile
	}
	if *update {
		*cell = text
		return
	}
	// The page names the source where it must be the portable one, and gaps where there must be some. Elsewhere both are
	// allowed: a session takes the portable source if its threads get no core when it starts.
	rest, ok := strings.CutPrefix(text, *cell)
	right := ok && (rest == "" || rest == tooMany || strings.HasPrefix(rest, ", by the portable source: "))
	testenv.FailIf(t, !right, "%s, %s: %s, but %s has %s\n%s", c.what, source, text, harmPage, *cell, got.stderr)
}

// harmRows returns the cells of docs/harm.md by the first column.
func harmRows(t *testing.T) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for line := range strings.Lines(part(t, "tables")) {
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) == 1+len(harmSources) {
			rows[cells[0]] = cells[1:]
		}
	}
	return rows
}

// harmText returns the tables.
func harmText(rows map[string][]string) string {
	var b strings.Builder
	for _, s := range harmSections {
		fmt.Fprintf(&b, "\n### %s\n\n", s.heading)
		if s.text != "" {
			fmt.Fprintf(&b, "%s\n\n", s.text)
		}
		b.WriteString("| case | without profiler | native | portable |\n|---|---|---|---|\n")
		for _, c := range s.cases {
			fmt.Fprintf(&b, "| %s | %s |\n", c.what, strings.Join(rows[c.what], " | "))
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// A harmRun is the result of one run of a case.
type harmRun struct {
	end     string // "exit 3", "SIGTERM", "does not end"
	said    string // the first line with which the runtime explains the end
	stdout  string
	stderr  string
	profile string // description of the profile, for the table
}

// String returns the text for the table.
func (r harmRun) String() string {
	switch {
	case r.said != "":
		return fmt.Sprintf("%s, `%s`", r.end, r.said)
	case r.stdout != "":
		first, _, _ := strings.Cut(r.stdout, "\n")
		return fmt.Sprintf("%s, `%s`", r.end, first)
	}
	return r.end
}

// buildCase builds the program of the cases, without cgo unless they or the flags need it.
func buildCase(t *testing.T, c bool, flags ...string) string {
	t.Helper()
	name, cgo := "cases", "CGO_ENABLED=0"
	if c {
		name = "ccases"
	}
	if c || slices.Contains(flags, "-race") || slices.Contains(flags, "-asan") {
		cgo = "CGO_ENABLED=1"
	}
	bin := filepath.Join(t.TempDir(), name)
	testenv.OK(t, testenv.Build(bin, "./testdata/"+name, []string{cgo}, flags...))
	return bin
}

// run runs a case with a source, "" for none.
func (c harmCase) run(t *testing.T, program, source string) (r harmRun) {
	t.Helper()
	dir := testenv.Must(os.MkdirTemp("", "gotach-harm"))
	defer os.RemoveAll(dir) // not with t.TempDir, because there may be many thousand runs
	ctx, cancel := context.WithTimeout(t.Context(), endsWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, strings.Fields(c.name)...)
	cmd.Dir = dir
	cmd.Env = append(environ(), c.env...)
	if source != "" {
		// auto, because with native it is an error if the native source cannot run.
		cmd.Env = append(cmd.Env, "PROFILE_OUT="+filepath.Join(dir, "%p-%t.tach"), "PROFILE_RATE=10000",
			"PROFILE_SOURCE="+map[string]string{"native": "auto", "portable": "portable"}[source])
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", c.what, err)
		return r
	}
	r.stdout, r.stderr = stdout.String(), stderr.String()
	r.end = ending(cmd.ProcessState)
	if ctx.Err() != nil {
		r.end = "does not end"
	}
	r.said = strings.TrimSuffix(explains.FindString(r.stderr), " [recovered]")
	switch why := refused.FindStringSubmatch(r.stderr); {
	case c.racy:
		r.profile = "the profile may have begun"
	case why != nil:
		r.profile = "no profile: " + why[1]
		testenv.Empty(t, dir)
	case source != "":
		r.profile = profile(t, filepath.Join(dir, "*.tach"), source)
	}
	code := cmd.ProcessState.ExitCode()
	testenv.FailIf(t, code == 64 || code == 65, "%s: the case could not run:\n%s", c.what, r.stderr)
	return r
}

// explains matches the line with which the runtime explains the end of a program.
var explains = regexp.MustCompile(`(?m)^(panic: |fatal error: |SIG[A-Z]+: ).*$`)

// tooMany describes a profile with gaps, in which no tick fit within MaxPause.
const tooMany = ", without the time in which there were too many goroutines"

// refused matches the reason why there is no session, up to the first colon, so that it has no
// numbers in it.
var refused = regexp.MustCompile(`no profile is being taken"? err="gotach: (?:sampler: )?([^:"]+)`)

// ending describes how a program ended.
func ending(p *os.ProcessState) string {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return unix.SignalName(ws.Signal())
	}
	return fmt.Sprint("exit ", p.ExitCode())
}

// environ returns this process's environment without variables of the profiler and its tests, and
// without the runtime's settings.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "PROFILE_") || strings.HasPrefix(kv, "GOTACH_") || strings.HasPrefix(kv, "GODEBUG=") || strings.HasPrefix(kv, "GOTRACEBACK=")
	})
}

// profile describes the profiles whose paths match a pattern.
func profile(t *testing.T, pattern, source string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return "no profile"
	}
	state, instead := "whole", ""
	for _, f := range files {
		head := make([]byte, 4)
		if b, err := os.ReadFile(f); err != nil || copy(head, b) < 4 || bytes.Equal(head, make([]byte, 4)) {
			state = "recoverable"
			if _, err := recovery.Finish(f); err != nil {
				t.Errorf("recovery of %s: %v", f, err)
				state = "lost"
				continue
			}
		}
		r, err := reader.Open(f)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		m, err := r.Metadata()
		_ = r.Close()
		if err != nil || m.Session == nil {
			t.Errorf("%s: metadata %+v, %v", f, m, err)
			continue
		}
		switch s := m.Session; {
		case state != "whole":
		case s.Source != source:
			instead = fmt.Sprintf(", by the %s source: %s", s.Source, s.SourceReason)
		case s.SignalTaken > 0:
			instead = ", which counts how often the signal was taken"
		case s.Error != "":
			instead = ", until: " + strings.TrimPrefix(strings.TrimPrefix(s.Error, "gotach: "), "native: ")
		case s.Blind > 100*time.Millisecond:
			instead = tooMany
		}
	}
	return "profile " + state + instead
}

var update = flag.Bool("update", false, "rewrite the tables of docs/harm.md and the answers of docs/cases.md")

const harmPage = "../../docs/harm.md"

// part returns the part of docs/harm.md that a test writes.
func part(t *testing.T, name string) string {
	t.Helper()
	_, rest, begun := strings.Cut(string(testenv.Must(os.ReadFile(harmPage))), "<!-- "+name+" -->\n")
	got, _, ended := strings.Cut(rest, "<!-- /"+name+" -->\n")
	testenv.StopIf(t, !begun || !ended, "%s has no place for %s", harmPage, name)
	return got
}
