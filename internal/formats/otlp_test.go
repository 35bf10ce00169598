package formats

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"

	"github.com/gotach/profiler/internal/profile"
)

// The sums of an OTLP profile are those of a report: for each function, wall time and CPU time, as leaf and in all.
// States are the report's too.
func TestOTLPSums(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "x.tach")
	wholeFile(t, whole, 1, nil)
	for _, path := range []string{whole, golden} {
		in := openInput(t, path, Options{})
		var b bytes.Buffer
		if err := in.Write(&b, "otlp", Options{}); err != nil {
			t.Fatal(err)
		}
		var d pb.ProfilesData
		if err := proto.Unmarshal(b.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		type sums struct{ Self, Total, SelfCPU, TotalCPU int64 }
		functions, states := map[string]sums{}, map[string]sums{}
		dict := d.Dictionary
		for n, p := range d.ResourceProfiles[0].ScopeProfiles[0].Profiles {
			if name := dict.StringTable[p.SampleType.TypeStrindex]; name != []string{"wall", "cpu"}[n] {
				t.Errorf("profile %d is of %s", n, name)
			}
			for _, s := range p.Samples {
				add := func(into map[string]sums, name string, self bool) {
					v, x := into[name], s.Values[0]
					switch {
					case n == 0 && self:
						v.Self += x
					case n == 0:
						v.Total += x
					case self:
						v.SelfCPU += x
					default:
						v.TotalCPU += x
					}
					into[name] = v
				}
				seen := map[string]bool{}
				for i, l := range dict.StackTable[s.StackIndex].LocationIndices {
					name := dict.StringTable[dict.FunctionTable[dict.LocationTable[l].Lines[0].FunctionIndex].NameStrindex]
					if i == 0 {
						add(functions, name, true)
					}
					if !seen[name] {
						add(functions, name, false)
					}
					seen[name] = true
				}
				state := ""
				for _, i := range s.AttributeIndices {
					switch a := dict.AttributeTable[i]; dict.StringTable[a.KeyStrindex] {
					case "go.goroutine.state", "go.goroutine.wait_reason":
						state = a.Value.GetStringValue()
					}
				}
				add(states, state, false)
			}
		}
		for by, got := range map[profile.By]map[string]sums{profile.ByFunction: functions, profile.ByState: states} {
			r, err := in.Report(profile.ReportOptions{By: by})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]sums{}
			for _, row := range r.Rows {
				v := sums{int64(row.Self), int64(row.Total), int64(row.SelfCPU), int64(row.TotalCPU)}
				if by == profile.ByState { // a state is not above another one
					v.Self, v.SelfCPU = 0, 0
				}
				want[row.Name] = v
			}
			if diff := cmp.Diff(want, got); diff != "" || len(want) < 3 {
				t.Errorf("%s, %v:\n%s", path, fmt.Sprint(by), diff)
			}
		}
	}
}
