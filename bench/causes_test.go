//go:build measure && linux

package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	judge "github.com/gotach/profiler/internal/testenv/measure"
)

var recordCauses = flag.String("record-causes", "", "TestMeasureFindings records `programs`, such as slow-peer,idle-server or all, for the tests of package findings, and measures nothing")

// causesSample are programs that mostly wait, so they can run beside each other.
var causesSample = []string{"leak-senders", "lock-fsync", "pool-http", "slow-peer", "polling", "idle-server"}

// TestMeasureFindings runs programs with a planted cause, and healthy ones, at the default budget: what is planted is the first
// finding, and the healthy ones have none. At night that is all programs of testdata/causes. To record them for the tests of
// package findings:
//
//	go test -tags measure ./bench -run TestMeasureFindings -record-causes all
func TestMeasureFindings(t *testing.T) {
	all := readCauses(t)
	programs := slices.DeleteFunc(slices.Clone(all), func(p cause) bool { return !slices.Contains(causesSample, p.Name) })
	what, bound, length := "planted causes that are not the first finding", 0.0, 2*time.Second
	if *recordCauses != "" {
		record(t, all)
		return
	}
	if long := testenv.Times(0, 1) == 1; long {
		// 20 of 24 are the first one, 23 are among the first three, and 7 of 8 healthy programs have none.
		what, bound, length, programs = "worst part of the bounds", 1, 4*time.Second, all
	}
	bin := buildCauses(t, programs)
	judge.AtMost(t, what, "", bound, func() float64 {
		dir := t.TempDir()
		lists := make([][]findings.Finding, len(programs))
		var group sync.WaitGroup
		for i, p := range programs {
			one := func() { lists[i] = whatIsWrong(t, p.run(t, bin, dir, length)) }
			if len(programs) < len(all) {
				group.Go(one)
			} else {
				one()
			}
		}
		group.Wait()
		planted, first, three, healthy, silent := 0, 0, 0, 0, 0
		for i, p := range programs {
			rank := p.rank(lists[i])
			switch {
			case p.Healthy():
				healthy++
				if rank == 0 {
					silent++
				} else {
					t.Logf("%s: want no finding: %s", p.Name, texts(lists[i]))
				}
				continue
			case rank == 1:
				first++
				three++
			case rank == 2 || rank == 3:
				three++
			}
			planted++
			if rank != 1 {
				t.Logf("%s: want %v in %v, rank %d: %s", p.Name, p.Kinds, p.Functions, rank, texts(lists[i]))
			}
		}
		t.Logf("of %d causes %d are the first finding, %d among the first three; of %d healthy programs %d have none", planted, first, three, healthy, silent)
		if len(programs) < len(all) {
			return float64(planted - first + healthy - silent)
		}
		share := func(misses, of int) float64 { return float64(misses) / float64(of) }
		return max(share(planted-first, planted)/(4.0/24), share(planted-three, planted)/(1.0/24), share(healthy-silent, healthy)/(1.0/8))
	})
}

type cause struct{ analyzetest.Cause }

func readCauses(t *testing.T) (list []cause) {
	for _, c := range analyzetest.Causes(t, "..") {
		list = append(list, cause{c})
	}
	return list
}

// rank returns the rank of the finding that is planted, from 1 on, or 0. Of a healthy program it is that of the first finding of
// a problem.
func (c *cause) rank(list []findings.Finding) int {
	return 1 + slices.IndexFunc(list, func(x findings.Finding) bool { return c.Healthy() && !x.Note || c.Is(x.Kind, x.Function) })
}

func texts(list []findings.Finding) string {
	out := "nothing"
	for i, x := range list {
		if i == 0 {
			out = ""
		}
		out += fmt.Sprintf("\n%d. %s: %s", i+1, x.Kind, x.Text)
	}
	return out
}

// buildCauses builds programs of testdata/causes, which is a module that is not in the workspace.
func buildCauses(t *testing.T, programs []cause, flags ...string) (bin string) {
	bin = t.TempDir()
	args := append(flags, "-o", bin+"/")
	for _, p := range programs {
		args = append(args, "./"+p.Name)
	}
	buildIn(t, "../testdata/causes", args...)
	return bin
}

// sourceOf returns the samples of a file.
func sourceOf(t *testing.T, path string, o stream.Options) *stream.Source {
	f := testenv.Closes(t, testenv.Must(reader.Open(path)))
	return testenv.Must(stream.New([]stream.File{{Stream: f}}, o))
}

// buildIn builds programs of a module that is not in the workspace.
func buildIn(t *testing.T, folder string, args ...string) {
	build := exec.Command("go", append([]string{"build"}, args...)...)
	build.Dir, build.Env = folder, append(os.Environ(), "GOWORK=off")
	testenv.Run(t, build)
}

// run runs a program and returns the path of its profile.
func (c *cause) run(t *testing.T, bin, dir string, length time.Duration) string {
	path := filepath.Join(dir, c.Name+".tach")
	cmd := exec.Command(filepath.Join(bin, c.Name), "-d", length.String())
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PROFILE_OUT="+path)
	var out []byte
	var err error
	if slices.Contains(c.Kinds, findings.Quota) {
		t.Run("", func(t *testing.T) { out, err = testenv.RunLimited(t, 0.5, cmd) }) // a cgroup is removed with its test
	} else {
		out, err = cmd.CombinedOutput()
	}
	testenv.FailIf(t, err != nil, "%s: %v\n%s", c.Name, err, out)
	return path
}

// whatIsWrong returns what is found in a profile, as gotach why does in the folder of the programs.
func whatIsWrong(t *testing.T, path string) []findings.Finding {
	o := report.Options{Series: true}
	so := o.Stream()
	so.Unselected = true
	src := sourceOf(t, path, so)
	survey := testenv.Must(report.NewSurvey(src, o, testenv.Must(source.Below([]string{"../testdata/causes"})).Read))
	return testenv.Must(findings.OfSurvey(survey, filepath.Base(path), math.MaxInt64))
}

// record runs programs and keeps their profiles.
func record(t *testing.T, all []cause) {
	const folder = "../internal/analyze/findings/testdata/causes"
	all = slices.DeleteFunc(all, func(c cause) bool {
		return *recordCauses != "all" && !slices.Contains(strings.Split(*recordCauses, ","), c.Name)
	})
	testenv.OK(t, os.MkdirAll(folder, 0o755))
	bin, dir := buildCauses(t, all, "-trimpath"), t.TempDir()
	for _, c := range all {
		profile := testenv.Must(os.ReadFile(c.run(t, bin, dir, 3*time.Second)))
		testenv.OK(t, os.WriteFile(filepath.Join(folder, c.Name+".tach"), profile, 0o644))
	}
}
