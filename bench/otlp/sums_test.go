package otlp

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv/cmp"
	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// The sums of an OTLP profile are those of a report: for each function wall time and CPU time, as leaf and in all, and for
// each state the time in all.
func TestOTLPSums(t *testing.T) {
	files := testenv.Files(t, "../../internal/analyze/testdata/sessions/*.tach", 5)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { testSums(t, path) })
	}
}

func testSums(t *testing.T, path string) {
	in := testenv.Must(formats.Open(path, formats.Options{}))
	defer in.Close()
	var b bytes.Buffer
	testenv.OK(t, in.Write(&b, "otlp", formats.Options{}))
	var d pb.ProfilesData
	testenv.OK(t, proto.Unmarshal(b.Bytes(), &d))
	dict, got, want := d.Dictionary, map[string]time.Duration{}, map[string]time.Duration{}
	for _, p := range d.ResourceProfiles[0].ScopeProfiles[0].Profiles {
		kind := dict.StringTable[p.SampleType.TypeStrindex]
		for _, s := range p.Samples {
			keys := map[string]bool{}
			for i, l := range dict.StackTable[s.StackIndex].LocationIndices {
				name := dict.StringTable[dict.FunctionTable[dict.LocationTable[l].Lines[0].FunctionIndex].NameStrindex]
				keys[kind+" below "+name] = true
				if i == 0 {
					keys[kind+" in "+name] = true
				}
			}
			for _, i := range s.AttributeIndices {
				if a := dict.AttributeTable[i]; slices.Contains([]string{"go.goroutine.state", "go.goroutine.wait_reason"}, dict.StringTable[a.KeyStrindex]) {
					keys[kind+" state "+a.Value.GetStringValue()] = true
				}
			}
			for key := range keys {
				got[key] += time.Duration(s.Values[0])
			}
		}
	}
	for _, r := range testenv.Must(in.Report(profile.ReportOptions{By: profile.ByFunction})).Rows {
		want["wall in "+r.Name], want["wall below "+r.Name] = r.Self, r.Total
		want["cpu in "+r.Name], want["cpu below "+r.Name] = r.SelfCPU, r.TotalCPU
	}
	for _, r := range testenv.Must(in.Report(profile.ReportOptions{By: profile.ByState})).Rows {
		want["wall state "+r.Name], want["cpu state "+r.Name] = r.Total, r.TotalCPU
	}
	maps.DeleteFunc(want, func(_ string, d time.Duration) bool { return d == 0 })
	delete(got, "wall state waiting") // its reason has an attribute of its own
	testenv.NoDiff(t, "sums", cmp.Diff(want, got))
}
