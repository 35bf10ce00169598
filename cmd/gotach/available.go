package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
	"github.com/spf13/cobra"
)

// available is what can be selected in a profile.
type available struct {
	states     []string                   // the one with the most time first
	labels     map[string]map[string]bool // by key: values, at most mostValues
	functions  []string
	peers      []string // addresses and files
	goroutines int
	from, to   uint64 // their ids, but those of the process
	start      time.Time
	length     time.Duration
}

// mostValues is how many values of a label are kept.
const mostValues = 1000

// readAvailable reads what can be selected in files.
func readAvailable(ctx context.Context, paths []string, from string) (*available, error) {
	in, err := openAll(paths, formats.Options{From: from, Context: ctx, Samples: true})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	src, err := in.Source(stream.Options{Labels: true, Objects: true})
	if err != nil {
		return nil, err
	}
	a := &available{labels: map[string]map[string]bool{}}
	type inState struct {
		status tachyon.Status
		stack  uint32
	}
	sums, seen := map[inState]time.Duration{}, map[*stream.Labels]bool{}
	for s, err := range src.Samples() {
		if err != nil {
			return nil, err
		}
		sums[inState{s.Status, s.Stack}] += s.Wall
		if s.Interpreter == tachyon.User && !s.NotSeen {
			if a.to == 0 || s.Goroutine < a.from {
				a.from = s.Goroutine
			}
			a.to = max(a.to, s.Goroutine)
		}
		if s.Labels != nil && !seen[s.Labels] {
			seen[s.Labels] = true
			a.addLabels(s.Labels.Map())
		}
	}
	states := map[string]time.Duration{}
	for at, sum := range sums {
		states[src.State(at.status, at.stack)] += sum
	}
	a.states = slices.SortedFunc(maps.Keys(states), func(x, y string) int {
		return cmp.Or(cmp.Compare(states[y], states[x]), strings.Compare(x, y))
	})
	named := map[string]bool{}
	for i := range src.Frames() {
		if name := profile.FuncName(src.Frames()[i].Func); !strings.HasPrefix(name, "[") {
			named[name] = true
		}
	}
	a.functions = slices.Sorted(maps.Keys(named))
	peers, err := src.Peers()
	if err != nil {
		return nil, err
	}
	at := map[string]bool{}
	for _, name := range peers {
		_, address, _ := strings.Cut(name, " ")
		address, _, _ = strings.Cut(address, " from ")
		at[address] = true
	}
	a.peers = slices.Sorted(maps.Keys(at))
	a.goroutines, a.start, a.length = src.Goroutines(), time.UnixMicro(int64(src.Header().Start)), time.Duration(src.End())*time.Microsecond
	return a, nil
}

func (a *available) addLabels(set map[string]string) {
	for k, v := range set {
		if a.labels[k] == nil {
			a.labels[k] = map[string]bool{}
		}
		if len(a.labels[k]) < mostValues {
			a.labels[k][v] = true
		}
	}
}

// nothing returns the error of a selection that selects nothing: it says what there is instead.
func (a *available) nothing(sel *stream.Selection) error {
	var is []string
	if len(sel.States) > 0 {
		is = append(is, "its states are "+some(a.states))
		if kinds := a.kinds(); len(kinds) > 0 {
			is[len(is)-1] += ", and words for several of them " + strings.Join(kinds, ", ")
		}
	}
	for _, l := range sel.Labels {
		text := "its goroutines have no labels"
		if values := a.labels[l.Key]; values != nil {
			text = fmt.Sprintf("its values of label %s are %s", l.Key, some(slices.SortedFunc(maps.Keys(values), compareValues)))
		} else if len(a.labels) > 0 {
			text = "its labels are " + some(slices.Sorted(maps.Keys(a.labels)))
		}
		if !slices.Contains(is, text) {
			is = append(is, text)
		}
	}
	if len(sel.Peers) > 0 {
		if len(a.peers) == 0 {
			is = append(is, "it does not say what goroutines in [IO wait] wait for")
		} else {
			is = append(is, "its peers are "+some(a.peers))
		}
	}
	if len(sel.Goroutines) > 0 {
		is = append(is, fmt.Sprintf("it has %s, from %d to %d", plural(int64(a.goroutines), "goroutine"), a.from, a.to))
	}
	if sel.Timed() {
		is = append(is, fmt.Sprintf("it began at %s and has %s", a.start.Format("2006-01-02T15:04:05.000"), duration(a.length)))
	}
	why := ""
	if len(is) > 0 {
		why = "; " + strings.Join(is, "; ")
	}
	return fmt.Errorf("no sample is selected by %v%s", sel, why)
}

// kinds returns the words for several states that select some of them.
func (a *available) kinds() []string {
	return slices.DeleteFunc(slices.Clone(stream.Kinds), func(word string) bool {
		return !slices.ContainsFunc(a.states, func(state string) bool { return stream.IsKind(word, state) })
	})
}

// compareValues compares values of a label: whole numbers as numbers, and before other text.
func compareValues(a, b string) int {
	x, notX := strconv.ParseInt(a, 10, 64)
	y, notY := strconv.ParseInt(b, 10, 64)
	switch {
	case notX == nil && notY == nil:
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
	case notX == nil:
		return -1
	case notY == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// some returns the first of several words.
func some(list []string) string {
	const most = 20
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}

// selected returns an error if nothing was selected.
func (e *env) selected(paths []string, o *formats.Options) error {
	if o.Select.Empty() || o.Select.Found == nil || o.Select.Found.Load() {
		return nil
	}
	if slices.Contains(paths, "-") { // it can be read once
		return (&available{}).nothing(&stream.Selection{What: o.Select.String()})
	}
	a, err := readAvailable(e.ctx, paths, o.From)
	if err != nil {
		return errors.Join((&available{}).nothing(&stream.Selection{What: o.Select.String()}), err)
	}
	return a.nothing(o.Select)
}

// completeAvailable completes the values of a flag from the files that are named already.
func completeAvailable(cmd *cobra.Command, flag string, words func(a *available) []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // of files that take long to read there is no completion
		defer cancel()
		files := slices.DeleteFunc(slices.Clone(args), func(path string) bool { return !exists(path) })
		a, err := readAvailable(ctx, files, "")
		if err != nil || len(files) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(a), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag does not exist: a bug in this program
	}
}

// patterns returns the functions as regular expressions. Dots are left as they are, so that each
// begins as the name does.
func (a *available) patterns() (list []string) {
	for _, name := range a.functions {
		list = append(list, strings.ReplaceAll(regexp.QuoteMeta(name), `\.`, "."))
	}
	return list
}

// completeSelection completes states and labels.
func completeSelection(cmd *cobra.Command) {
	completeAvailable(cmd, "state", func(a *available) []string { return append(a.states, a.kinds()...) })
	completeAvailable(cmd, "label", func(a *available) (list []string) {
		for k, values := range a.labels {
			for v := range values {
				list = append(list, k+"="+v)
			}
		}
		slices.Sort(list)
		return list
	})
}
