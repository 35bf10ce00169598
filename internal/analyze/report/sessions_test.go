package report

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// Each analysis says of each session what it said when somebody looked at it last. The other tests of sessions compare the
// same with what the programs say of themselves.
func TestSessions(t *testing.T) {
	testenv.Again(t)
	files := testenv.Files(t, "../testdata/sessions/*.tach", 20)
	for _, path := range files[:testenv.Brief(8, len(files))] {
		name := strings.TrimSuffix(filepath.Base(path), ".tach")
		t.Run(name, func(t *testing.T) {
			s := analyzetest.OpenSession(t, filepath.Dir(path), name)
			testenv.Golden(t, s.Path+".findings", findings(t, s), *analyzetest.Update)
		})
	}
}

// findings returns what the analyses say of a session, a finding in a line.
func findings(t *testing.T, s *analyzetest.Session) string {
	t.Helper()
	out := &bytes.Buffer{}
	print := func(kind string, finding any) { analyzetest.PrintFinding(t, out, kind, finding) }
	o := locks.Options{Channels: true, Source: analyzetest.SourceOfSessions}
	blocked := analyzetest.Must(locks.Find(s.Samples(t), o))(t)
	lists := []*locks.Locks{blocked}
	if group := blocked.Group(); len(group.Locks) < len(blocked.Locks) {
		lists = append(lists, group)
	}
	for _, list := range lists {
		for i := range list.Locks {
			if h := list.Locks[i].Holder; h != nil {
				h.Stacks = h.Stacks[:min(2, len(h.Stacks))]
			}
			print("lock", list.Locks[i])
		}
		list.Locks = nil
	}
	print("locks", blocked)
	waits := analyzetest.Must(locks.FindWaits(s.Samples(t), locks.WaitOptions{Func: regexp.MustCompile(`^main\.`), Options: o}))(t)
	for _, n := range waits.Chains[:min(4, len(waits.Chains))] {
		print("wait", n)
	}
	waits.Chains = nil
	print("waits", waits)
	served := analyzetest.Must(requests.Find(s.Samples(t), requests.Options{Source: analyzetest.SourceOfSessions, Slowest: analyzetest.Slowest}))(t)
	print("requests", served)
	for _, o := range []Options{{Weight: "latency"}, {Weight: "cpu", Idle: true}} {
		report, _ := reportOf(t, s.Samples(t).Source, o, profile.ReportOptions{Top: 6})
		print("by "+o.Weight, report)
		if o.Weight == "latency" && !analyzetest.Near(report.Total, report.Duration, 0.0001, report.Duration) {
			t.Errorf("the latency is %v in all, the session lasted %v", report.Total, report.Duration)
		}
	}
	survey := analyzetest.Must(NewSurvey(s.Samples(t).Source, Options{Series: true}, nil))(t)
	print("idle", survey.Profile.Idle)
	for _, g := range survey.Leaks.Groups {
		print("leak", g)
	}
	for _, by := range []profile.By{profile.ByBlocked, profile.ByFunction, profile.ByState} {
		for _, row := range analyzetest.Must(profile.New(survey.Profile, profile.ReportOptions{By: by, Top: 6}))(t).Rows {
			print("row", row)
			print("series", row.Series[:min(8, len(row.Series))])
		}
	}
	return out.String()
}
