//go:build peers

package formats

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

// A viewerTime is what a viewer shows for a function, in ms.
type viewerTime struct{ Self, Total float64 }

// viewerTimes are the times of a profile in ms, by function and by state. With stateFrames, the self time of a function
// in which a goroutine neither ran nor waited is that of a frame such as "[no core]".
func viewerTimes(t *testing.T, in *Input, stateFrames bool) (functions map[string]viewerTime, states map[string]float64) {
	p := testenv.Must(in.Profile())
	functions, states = map[string]viewerTime{}, map[string]float64{}
	for i := range p.Records {
		r := &p.Records[i]
		wall := float64(r.Wall) / float64(time.Millisecond)
		states[r.State] += wall
		var names []string
		for _, id := range r.Stack {
			names = append(names, profile.FuncName(p.Frames[id].Func))
		}
		waits := len(r.Stack) == 0
		if waits {
			names = []string{"[no stack]"}
		} else {
			_, waits = stream.WaitReason(p.Frames[r.Stack[0]])
		}
		if stateFrames && !waits && r.State != profile.Running && r.State != profile.Waiting {
			names = append([]string{"[" + r.State + "]"}, names...)
		}
		seen := map[string]bool{}
		for i, name := range names {
			v := functions[name]
			if i == 0 {
				v.Self += wall
			}
			if !seen[name] {
				v.Total += wall
			}
			seen[name] = true
			functions[name] = v
		}
	}
	return functions, states
}

// near lets sums of numbers in JavaScript differ in their last digits.
var near = cmp.Near(1e-9)

// viewerInputs are files that the viewers are given: one with a goroutine in each state, and one of CPython with deep stacks.
func viewerInputs(t *testing.T) map[string]string {
	t.Helper()
	whole := filepath.Join(t.TempDir(), "whole.tach")
	wholeFile(t, whole, 1, nil)
	return map[string]string{"whole": whole, "deep": goldens + "/document-v2/deep.bin"}
}

// speedscope's own importer shows the times of each function that we show.
func TestPeerSpeedscope(t *testing.T) {
	node, dir := testenv.NPM(t, "speedscope")
	for name, path := range viewerInputs(t) {
		in := openInput(t, path, Options{})
		want, _ := viewerTimes(t, in, true)
		out := filepath.Join(t.TempDir(), "x.speedscope.json")
		testenv.OK(t, in.Convert(out, "", Options{}))
		cmd := exec.Command(node, "speedscope/testdata/import.cjs", dir, out)
		cmd.Stderr = os.Stderr
		text := testenv.Must(cmd.Output())
		var profiles []struct {
			Name, Unit    string
			Total, Weight float64
			Frames        []struct {
				Name        string
				Self, Total float64
			}
		}
		testenv.OK(t, json.Unmarshal(text, &profiles))
		got := map[string]viewerTime{}
		names := map[string]bool{}
		for _, p := range profiles {
			testenv.FailIf(t, p.Unit != "nanoseconds" || p.Total != p.Weight, "%s: %s has %v %s, of %v in all", name, p.Name, p.Total, p.Unit, p.Weight)
			names[p.Name] = true
			for _, f := range p.Frames {
				v := got[f.Name]
				got[f.Name] = viewerTime{v.Self + f.Self/1e6, v.Total + f.Total/1e6}
			}
		}
		testenv.NoDiff(t, fmt.Sprintf("%s: ms by function", name), cmp.Diff(want, got, near))
		testenv.FailIf(t, name == "whole" && !names["goroutine 1 main.work"], "profiles %v", names)
	}
}

// Firefox Profiler's own command shows the times of each function and of each state that we show.
func TestPeerFirefox(t *testing.T) {
	node, dir := testenv.NPM(t, "profiler-cli")
	for name, path := range viewerInputs(t) {
		in := openInput(t, path, Options{})
		want, wantStates := viewerTimes(t, in, false)
		out := filepath.Join(t.TempDir(), "x.firefox.json.gz")
		testenv.OK(t, in.Convert(out, "", Options{}))
		f := startFirefox(t, node, dir, out)
		got, states := map[string]viewerTime{}, map[string]float64{}
		var list struct {
			Threads []struct {
				ThreadHandle, Name string
				CPUMs              float64
				MarkerCount        int
			}
		}
		f.ask(t, &list, "thread", "list", "--limit", "0")
		cpu := 0.0
		for _, thread := range list.Threads {
			cpu += thread.CPUMs
			var answer struct {
				WeightType string
				Functions  []struct {
					Name                      string
					SelfSamples, TotalSamples float64
				}
				CategoryBreakdown struct {
					Categories []struct {
						Subcategories []struct {
							Name    string
							Samples float64
						}
					}
				}
			}
			f.ask(t, &answer, "thread", "functions", "--thread", thread.ThreadHandle, "--include-idle", "--limit", "0")
			f.ask(t, &answer, "thread", "samples", "--thread", thread.ThreadHandle, "--include-idle")
			testenv.Same(t, name, answer.WeightType, "tracing-ms")
			for _, f := range answer.Functions {
				v := got[f.Name]
				got[f.Name] = viewerTime{v.Self + f.SelfSamples, v.Total + f.TotalSamples}
			}
			for _, c := range answer.CategoryBreakdown.Categories {
				for _, s := range c.Subcategories {
					states[s.Name] += s.Samples
				}
			}
		}
		testenv.NoDiff(t, fmt.Sprintf("%s: ms by function", name), cmp.Diff(want, got, near))
		testenv.NoDiff(t, fmt.Sprintf("%s: ms by state", name), cmp.Diff(wantStates, states, near))
		wantCPU := wantStates["running"] + wantStates["syscall on CPU"] + wantStates["C on CPU"]
		testenv.Within(t, name+": ms of CPU time", cpu, .99*wantCPU, 1.01*wantCPU)
		if name == "whole" {
			f.check(t, list.Threads[0].ThreadHandle)
		}
	}
}

// A profilerCLI is a running daemon of profiler-cli.
type profilerCLI struct {
	node, script string
	env          []string
}

// startFirefox loads a file. The daemon is started here, since profiler-cli itself waits only half a second for it.
func startFirefox(t *testing.T, node, dir, file string) *profilerCLI {
	t.Helper()
	session, err := os.MkdirTemp("", "fx") // short: it is part of a socket's name
	testenv.OK(t, err)
	f := &profilerCLI{node, filepath.Join(dir, "dist", "profiler-cli.js"), append(os.Environ(), "PROFILER_CLI_SESSION_DIR="+session, "PROFILER_CLI_NO_SYMBOLICATE=1")}
	cmd := exec.Command(node, f.script, "--daemon", file, "--session", "x")
	cmd.Env = f.env
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	testenv.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		os.RemoveAll(session)
	})
	// The daemon writes current.txt last, when it listens. A question before that would remove the daemon's socket and the
	// description of its session, and no later question would be answered. Until the file is loaded, questions fail.
	testenv.Await(func() bool {
		if name, _ := os.ReadFile(filepath.Join(session, "current.txt")); string(name) == "x" {
			_, err = f.run("thread", "list", "--session", "x", "--json")
			return err == nil
		}
		err = errors.New("it does not listen")
		return false
	})
	testenv.StopIf(t, err != nil, "no answer from profiler-cli: %v", err)
	return f
}

func (f *profilerCLI) run(args ...string) ([]byte, error) {
	cmd := exec.Command(f.node, append([]string{f.script}, args...)...)
	cmd.Env = f.env
	text, err := cmd.Output()
	if e, ok := err.(*exec.ExitError); ok {
		err = fmt.Errorf("%w: %s", err, e.Stderr)
	}
	return text, err
}

// ask runs a command and decodes its answer.
func (f *profilerCLI) ask(t *testing.T, answer any, args ...string) {
	t.Helper()
	text, err := f.run(append(args, "--session", "x", "--json")...)
	testenv.StopIf(t, err != nil, "%v: %v", args, err)
	err = json.Unmarshal(text, answer)
	testenv.StopIf(t, err != nil, "%v: %v\n%s", args, err, text)
}

// check compares markers and counters of wholeFile.
func (f *profilerCLI) check(t *testing.T, thread string) {
	t.Helper()
	type marker struct {
		Name     string
		Duration float64
		Category string
	}
	var markers struct{ FlatMarkers []marker }
	f.ask(t, &markers, "thread", "markers", "--list", "--thread", thread)
	var counters struct {
		Counters []struct {
			Name, Label string
			Graph       []float64
		}
	}
	f.ask(t, &counters, "counter", "list")
	want := []marker{
		{"runnable", 10, "Runnable"}, {"syscall", 10, "System call or C"}, {"C", 10, "System call or C"},
		{"sync.Mutex.Lock", 10, "Lock"}, {"sync.Mutex.Lock", 10, "Lock"}, // for two objects
	}
	testenv.NoDiff(t, "markers", cmp.Diff(want, markers.FlatMarkers, near))
	testenv.Same(t, "counters", len(counters.Counters), 2)
	for i, most := range []float64{2, 1} { // goroutines at once, and runnable ones
		testenv.Within(t, counters.Counters[i].Label, slices.Max(counters.Counters[i].Graph), most-.05, most+.05)
	}
}

// Another user's link is not followed.
func TestPeerReplaceForeignLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	testenv.OK(t, errors.Join(os.WriteFile(target, []byte("precious"), 0o600), os.Symlink("target", link)))
	if err := os.Lchown(link, 12345, -1); err != nil {
		testenv.Skip(t, "no another user's link: only root may make one: "+err.Error())
	}
	testenv.Fails(t, "another user's link", Replace(link, func(io.Writer) error { return nil }), "another user")
	testenv.Same(t, "the target", string(testenv.Must(os.ReadFile(target))), "precious")
}
