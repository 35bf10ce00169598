//go:build linux && (amd64 || arm64)

package harmless

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

const answersPage = "../../docs/cases.md"

// A question is a command on docs/cases.md, and what its answer must have.
type question struct {
	program string
	args    string // of gotach. WINDOW stands for flags that select the time of the slowest request.
	keep    string // the page has those paragraphs of the answer that match; "": all
	under   string // the cause is below the line that matches this
	rows    int    // it is in one of so many lines
	cause   string // it matches this
}

var questions = []question{
	{"nats", `report nats.tach`, `wait for the lock|BLOCKED AT`, `^\d\. lock`, 3, `main\.\(\*rates\)\.load\b`},
	{"nats", `requests nats.tach --func 'main.answerPrice$'`, "", `MORE  AT$`, 1, `\[(sync\.Mutex\.Lock|sleep)\] main\.\(\*rates\)\.(current|load) `},
	{"nats", `waits 'main.answerPrice$' nats.tach`, "", `for (r\.mu|Mutex in )`, 1, `held by .*\[sleep\] main\.\(\*rates\)\.load `},
	{"sqlite", `report sqlite.tach`, `BLOCKED AT`, `BLOCKED AT`, 1, `\[syscall\] main\.saveOrder `},
	{"sqlite", `requests sqlite.tach --func 'main.saveOrder$'`, "", `MORE  AT$`, 2, `\[syscall\] .*modernc\.org/libc\.sleepSyscall`},
	{"sqlite", `report sqlite.tach --callers 'libc.sleepSyscall$' --top 1`, "", `FUNCTION, AND BELOW`, 1, `_sqlite3InvokeBusyHandler → .* → main\.saveOrder\b`},
	{"sqlite", `report sqlite.tach --blocked WINDOW`, "", `BLOCKED AT`, 3, `\[sleep\] main\.fetchPage `},
	{"prometheus", `report prometheus.tach`, `BLOCKED AT|ON CPU|REQUESTS`, `REQUESTS$`, 3, `in the slowest 1 %: \[(running|no core)\] .*/(promql|tsdb|storage)\.`},
	{"prometheus", `requests prometheus.tach`, "", `MORE  AT$`, 5, `/promql\.\(\*evaluator\)\.`},
	{"prometheus", `report prometheus.tach --weight cpu --tree --focus 'promql\.' --top 8`, "", `CALLS, FROM`, 4, `/promql\.\(\*evaluator\)\.evalSubquery`},
}

// TestCases checks the answers on docs/cases.md: they must name the causes of the faults of three real programs. TestPeerCases
// asks gotach again.
func TestCases(t *testing.T) {
	for _, q := range questions {
		if answer, ok := q.onPage(t); !ok {
			t.Errorf("%s does not have the command gotach %s", answersPage, q.args)
		} else if err := q.check(answer); err != nil {
			t.Errorf("%s: %v", answersPage, err)
		}
	}
}

// onPage returns the command and the answer that docs/cases.md has for a question.
func (q *question) onPage(t *testing.T) (answer string, ok bool) {
	text := testenv.Must(os.ReadFile(answersPage))
	command := strings.Replace(regexp.QuoteMeta(q.args), "WINDOW", `--since [0-9.]+s --until [0-9.]+s`, 1)
	m := regexp.MustCompile("(?s)```\n(\\$ gotach " + command + "\n.*?)```\n").FindSubmatch(text)
	if m == nil {
		return "", false
	}
	return string(m[1]), true
}

// check returns an error if the answer does not name the cause.
func (q *question) check(answer string) error {
	lines := strings.Split(answer, "\n")
	under, cause := regexp.MustCompile(q.under), regexp.MustCompile(q.cause)
	at := slices.IndexFunc(lines, under.MatchString)
	if at < 0 {
		return fmt.Errorf("gotach %s: no line has %s", q.args, q.under)
	}
	below := lines[at+1:]
	if below = below[:min(q.rows, len(below))]; !slices.ContainsFunc(below, cause.MatchString) {
		return fmt.Errorf("gotach %s: the %d lines below %q do not have %s:\n%s", q.args, q.rows, lines[at], q.cause, strings.Join(below, "\n"))
	}
	return nil
}
