package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/pprof/profile"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/tachyon"
)

// row is a function's shares of the CPU time, in percent: flat and with what it calls, in both
// profiles.
type row struct {
	function string
	flat     [2]float64
	total    [2]float64
}

// apart returns by how many points the profiles differ, at most.
func (r row) apart() float64 {
	return max(math.Abs(r.flat[0]-r.flat[1]), math.Abs(r.total[0]-r.total[1]))
}

const worth = 2 // percent: functions with less in both profiles are left out

// compare compares the CPU time in a profile of gotach with one of runtime/pprof.
func compare(folder string) ([]row, error) {
	in, err := formats.OpenAll([]string{filepath.Join(folder, "gotach.tach")}, formats.Options{})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	converted := filepath.Join(folder, "gotach.pb.gz")
	if err := in.Convert(converted, "pprof", formats.Options{CPU: true}); err != nil {
		return nil, err
	}
	rows := map[string]*row{}
	for i, path := range []string{converted, filepath.Join(folder, "pprof.pb.gz")} {
		if err := share(path, i, rows); err != nil {
			return nil, err
		}
	}
	var list []row
	for _, r := range rows {
		if max(r.flat[0], r.flat[1], r.total[0], r.total[1]) >= worth {
			list = append(list, *r)
		}
	}
	slices.SortFunc(list, func(a, b row) int {
		return cmp.Or(-cmp.Compare(a.apart(), b.apart()), cmp.Compare(a.function, b.function))
	})
	return list, nil
}

var typeArguments = regexp.MustCompile(`\[.*\]`) // gotach leaves them out, as runtime.Frame.Function does

// share adds the shares of one profile.
func share(path string, i int, rows map[string]*row) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	value := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "cpu" })
	if value < 0 {
		return fmt.Errorf("%s has no CPU time", path)
	}
	flat, total, all := map[string]float64{}, map[string]float64{}, 0.0
	for _, s := range p.Sample {
		var stack []string
		for _, l := range s.Location {
			for _, line := range l.Line {
				stack = append(stack, line.Function.Name)
			}
		}
		if slices.ContainsFunc(stack, leftOut) {
			continue
		}
		if slices.ContainsFunc(stack, withoutSymbols) {
			stack = []string{"code without symbols"} // runtime/pprof does not know its callers
		}
		cpu := float64(s.Value[value])
		all += cpu
		seen := map[string]bool{}
		for at, name := range stack {
			if strings.HasPrefix(name, "[") {
				continue // a row, or [syscall]
			}
			name = typeArguments.ReplaceAllString(name, "[...]")
			if at == 0 {
				flat[name] += cpu
			}
			if !seen[name] {
				seen[name] = true
				total[name] += cpu
			}
		}
	}
	for name := range maps.Keys(total) {
		r := rows[name]
		if r == nil {
			r = &row{function: name}
			rows[name] = r
		}
		r.flat[i], r.total[i] = 100*flat[name]/all, 100*total[name]/all
	}
	return nil
}

// leftOut reports whether stacks with a function are left out: those of the profilers, and the
// runtime's monitor, whose thread runtime/pprof does not sample.
func leftOut(function string) bool {
	return function == tachyon.FuncProfiler || function == "runtime.sysmon" || strings.HasPrefix(function, "github.com/gotach/profiler/sampler") ||
		strings.HasPrefix(function, "runtime/pprof.profileWriter")
}

// withoutSymbols reports whether a function stands for code that nobody has tables for, in either
// profile.
func withoutSymbols(function string) bool {
	return function == tachyon.FuncNoSymbols || function == "runtime._ExternalCode"
}

// print writes a table of the rows.
func print(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "flat: gotach\tpprof\ttotal: gotach\tpprof\tapart\t\n")
	for _, r := range rows {
		fmt.Fprintf(t, "%.1f %%\t%.1f %%\t%.1f %%\t%.1f %%\t%.1f\t  %s\n", r.flat[0], r.flat[1], r.total[0], r.total[1], r.apart(), r.function)
	}
	t.Flush()
}
