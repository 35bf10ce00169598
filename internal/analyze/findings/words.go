package findings

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// text returns a place as it stands in a sentence.
func (p place) text() string {
	if p.file == "" {
		return profile.FuncName(p.function)
	}
	return fmt.Sprintf("%s %s:%d", profile.FuncName(p.function), path.Base(strings.ReplaceAll(p.file, `\`, "/")), p.line)
}

// percent returns a share as text.
func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// part returns a time and its share of base as text.
func (f *facts) part(t time.Duration) string {
	if f.byRequests() {
		return fmt.Sprintf("%s, %s of the time of requests", profile.DurationText(t), percent(f.share(t)))
	}
	return fmt.Sprintf("%s, %s of the time that was not idle", profile.DurationText(t), percent(f.share(t)))
}

// who says whose time it is.
func (f *facts) who() string {
	if f.byRequests() {
		return "Requests"
	}
	return "Goroutines"
}

// average returns a time as a number of goroutines or cores on average.
func (f *facts) average(t time.Duration) string {
	if f.length <= 0 {
		return "0"
	}
	return profile.Digits(float64(t) / float64(f.length))
}

// text returns what a span says for a sentence, "" if it is the whole session.
func (s Span) text() (text string) {
	if s.Since > 0 {
		text = ", since " + profile.DurationText(time.Duration(s.Since)*time.Microsecond)
	}
	if s.Until > 0 {
		text += ", until " + profile.DurationText(time.Duration(s.Until)*time.Microsecond)
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// activity says what somebody did at a line.
func (f *facts) activity(state string, at place) string {
	verb := "was in [" + state + "]"
	switch state {
	case profile.Running:
		verb = "computed"
	case "sleep":
		verb = "slept"
	case profile.Syscall:
		verb = "was in a system call"
	case profile.Runnable, profile.NoCore:
		verb = "waited for a core"
	}
	if at.function == "" {
		return verb
	}
	if i := slices.IndexFunc(f.spots, func(s *spot) bool { return s.place == at && s.state == state }); i >= 0 { // the one with the most time
		switch s := f.spots[i]; {
		case s.op == opSync:
			verb = "waited until data were on the disk (fsync)"
		case s.op == opWrite:
			verb = "waited for " + readerText(s.peer) + " to read what it writes"
		case s.op == opTick, s.op == opSleep && state != "sleep":
			verb = "waited until a time came"
		case s.wait != "":
			verb = "waited for " + s.wait
		case s.peer != "" && !strings.Contains(s.peer, " from ") && state == "IO wait":
			verb = "waited for " + peerText(s.peer)
		}
	}
	return verb + " in " + at.text()
}

// activityOf is activity of a goroutine that keeps another one waiting, of which it may be known
// what it waits for.
func (f *facts) activityOf(n *locks.WaitNode) string {
	at := placeOfHolder(&n.HolderFrame)
	if n.Name == "" || n.Kind != "" || at.function == "" {
		return f.activity(n.State, at)
	}
	return "waited for " + n.Name + " in " + at.text()
}

// quoted returns a word of a command that can be typed.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func peerText(name string) string { return stream.PeerText(name) }

// readerText says who reads from a peer. A pipe does not read itself.
func readerText(name string) string {
	if strings.HasPrefix(name, "pipe ") {
		return "the reader of " + name
	}
	if at, from, ok := strings.Cut(peerText(name), " from "); ok {
		return "client " + from + " of " + at
	}
	return cmp.Or(peerText(name), "others")
}
