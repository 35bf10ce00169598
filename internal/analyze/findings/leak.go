package findings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

// growing says which goroutines leak. Its share is their part of the goroutines at the end.
func growing(f *facts) error {
	l := f.Survey.Leaks
	most := 0
	if f.session != nil {
		most = f.session.MaxGoroutines
	}
	type cause struct {
		by   string
		size int
	}
	told := map[cause]bool{} // goroutines that one function starts together leak together
	for i := range l.Groups {
		g := &l.Groups[i]
		if !g.Leaks() || told[cause{g.CreatedBy, g.End}] {
			continue
		}
		told[cause{g.CreatedBy, g.End}] = g.CreatedBy != ""
		at := place{g.Function, g.File, g.Line}
		text := fmt.Sprintf("Goroutines leak: %d wait in [%s] at %s at the end, %d at the start, %s a minute.", g.End, g.Reason, at.text(), g.Start, g.GrowthText())
		sure := Inferred
		evidence := fmt.Sprintf("%d of these waits have lasted for an eighth of the profile or more; %d as long ended", g.Stuck, g.Unstuck)
		if g.Cut > 0 {
			evidence += fmt.Sprintf(", and %d when the program did", g.Cut)
		}
		if g.Ticks() {
			evidence = fmt.Sprintf("%d of them wake up and wait again, as at a ticker, for an eighth of the profile; %d ended", g.Stays, g.Left)
		}
		if g.Proven > 0 {
			evidence, sure = fmt.Sprintf("the runtime has proved that %d wait forever", g.Proven), Measured
		}
		x := Finding{Kind: Leak, Text: text, Sure: sure, Cost: f.leaked[doing{at, g.Reason}], Command: "leaks %s", Evidence: []string{evidence}}
		asked, starts := f.callerOf(g.CreatedBy), " What starts them is called at "
		connection := strings.HasPrefix(g.Function, "net/http.(*persistConn).")
		if connection { // another goroutine of the library starts them
			asked, starts = f.callerOf("net/http.(*Transport).getConn"), " Most waits for such connections are at "
		}
		if asked.function != "" && !isProgram(at) {
			x.Text += starts + asked.text() + "."
			at = asked
		}
		x.Share = min(1, float64(max(g.End-g.Start, g.Proven))/float64(max(most, g.End, g.Proven, 1)))
		if connection {
			x.Evidence = slices.Insert(x.Evidence, 0, "net/http keeps a connection until its response is read to the end or its body is closed: is each closed?")
		} else if g.CreatedBy != "" {
			x.Evidence = append(x.Evidence, "created by "+profile.FuncName(g.CreatedBy)+" "+g.CreatedAt)
		}
		x.Evidence = append(x.Evidence, "the longest of these waits has lasted "+profile.DurationText(g.Oldest))
		f.add(x, at)
	}
	return nil
}

// callerOf returns the line of the program's own code at which a function of a library was seen the
// longest, none if it is not one.
func (f *facts) callerOf(function string) place {
	own, times := f.p.OwnFrames(), map[place]time.Duration{}
	for i := range f.p.Records {
		rec := &f.p.Records[i]
		in := slices.IndexFunc(rec.Stack, func(id uint32) bool { return f.p.Frames[id].Func == function })
		if in < 0 || function == "" {
			continue
		}
		if id, ok := own(rec.Stack[in:]); ok {
			if at := placeOf(&f.p.Frames[id]); isProgram(at) && at.function != function {
				times[at] += rec.Wall
			}
		}
	}
	at, _ := most(times, byPlace)
	return at
}

// isProgram reports whether a place is in the program's own code.
func isProgram(at place) bool {
	return profile.CodeOf(&profile.Frame{Func: at.function, File: at.file}) == profile.ProgramCode
}
