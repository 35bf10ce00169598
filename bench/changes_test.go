//go:build measure && linux

package main

import (
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/diff"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	judge "github.com/gotach/profiler/internal/testenv/measure" // measure is a function of this package
)

// TestMeasureChanges compares real programs before a change and after it, as gotach diff does: what changed is the first row
// that is different. Two runs of one program have no row that is. At night that is also a proxy of caddy whose pool of
// connections is bigger, and each beside another program that spins.
func TestMeasureChanges(t *testing.T) {
	testenv.Night(t, "many pairs of ten seconds")
	changes := map[string]struct{ after, row string }{
		"jobs": {"jobs-checked", "main.check"}, // 4 % of the CPU time, in a function that the others call too
		"leak": {"leak-faster", "[chan receive] main.forgotten"},
		"pool": {"pool-bigger", "[select] github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy.(*HTTPTransport).RoundTrip in net/http.(*Transport).getConn"},
	}
	bin := buildServers(t, "")
	record := func(t *testing.T, condition, load string) string {
		dir := t.TempDir()
		runServer(t, condition, bin, "alone/"+load, "10", dir)
		return filepath.Join(dir, "gotach.tach")
	}
	for _, condition := range []string{"alone", "beside 1"} {
		for _, load := range []string{"jobs", "leak", "pool"} {
			t.Run(load+", "+condition, func(t *testing.T) {
				change := changes[load]
				before := record(t, condition, load)
				judge.AtMost(t, load+", "+condition+": runs in which something else is first", "misses", 0, func() float64 {
					if first := firstDifferent(t, before, record(t, condition, change.after)); first != change.row {
						t.Logf("%q is first", first)
						return 1
					}
					return 0
				})
				judge.AtMost(t, load+", "+condition+": runs of one program that differ", "runs", 0, func() float64 {
					again := record(t, condition, load)
					first := firstDifferent(t, before, again)
					before = again
					if first != "" {
						t.Logf("%q differs", first)
						return 1
					}
					return 0
				})
			})
		}
	}
}

// firstDifferent returns the first row that is different in two files, "" if none is.
func firstDifferent(t *testing.T, paths ...string) string {
	var sides [2][]*analyze.Samples
	for i, path := range paths {
		src := sourceOf(t, path, stream.Options{Creators: true})
		sides[i] = []*analyze.Samples{analyze.NewSamples(path, src)}
	}
	d := testenv.Must(diff.Find(sides[0], sides[1], diff.Options{}))
	for _, r := range d.Rows {
		if r.Level != diff.LevelWhole && r.Significant {
			return r.Name
		}
	}
	return ""
}
