//go:build peers

package fleet

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/testenv/cmp"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// The OpenTelemetry Collector takes what push sends and writes it to a file. That has the sums of the reports, the labels and the
// traces.
func TestPeerCollector(t *testing.T) {
	testenv.Night(t, "building the Collector takes minutes")
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out.bin")
	writeFleet(t, dir)
	address, stop := collect(t, out)
	send(t, dir, "otlp+http://"+address)
	stop()

	states, functions := reports(t, dir, profile.ByState), reports(t, dir, profile.ByFunction)
	b := testenv.Must(os.ReadFile(out))
	got := collected{states: map[string][2]int64{}, functions: map[string][2]int64{}, traces: map[string]int64{}, labels: map[string]int64{}}
	for len(b) > 4 { // each message follows its length
		n := binary.BigEndian.Uint32(b)
		var d pb.ProfilesData
		testenv.OK(t, proto.Unmarshal(b[4:4+n], &d))
		got.add(&d)
		b = b[4+n:]
	}
	testenv.NoDiff(t, "states", cmp.Diff(states, got.states))
	testenv.NoDiff(t, "functions", cmp.Diff(functions, got.functions))
	testenv.NoDiff(t, "wall time of traces", cmp.Diff(map[string]int64{"shop " + traceID + " b7ad6b7169203331": 1e9, "stock " + traceID + " 00f067aa0ba902b7": 1e9}, got.traces))
	if got.labels["shop /search"] == 0 || got.labels["stock /search"] == 0 {
		t.Errorf("labels %v", got.labels)
	}
}

// A collected is what the Collector wrote: wall and CPU time, by service and something else.
type collected struct {
	states, functions map[string][2]int64
	traces, labels    map[string]int64 // wall time only
}

func (c *collected) add(d *pb.ProfilesData) {
	dict := d.Dictionary
	for _, r := range d.ResourceProfiles {
		service := ""
		for _, a := range r.Resource.Attributes {
			// The Collector moves these texts to the dictionary.
			if dict.StringTable[a.KeyStrindex]+a.Key == "service.name" {
				service = dict.StringTable[a.Value.GetStringValueStrindex()] + a.Value.GetStringValue()
			}
		}
		for _, scope := range r.ScopeProfiles {
			for _, p := range scope.Profiles {
				kind := 0
				if dict.StringTable[p.SampleType.TypeStrindex] == "cpu" {
					kind = 1
				}
				for _, s := range p.Samples {
					c.sample(dict, service, kind, s)
				}
			}
		}
	}
}

func (c *collected) sample(dict *pb.ProfilesDictionary, service string, kind int, s *pb.Sample) {
	location := dict.LocationTable[dict.StackTable[s.StackIndex].LocationIndices[0]]
	function := dict.StringTable[dict.FunctionTable[location.Lines[0].FunctionIndex].NameStrindex]
	attributes := map[string]*common.AnyValue{}
	for _, i := range s.AttributeIndices {
		a := dict.AttributeTable[i]
		attributes[dict.StringTable[a.KeyStrindex]] = a.Value
	}
	state := attributes["go.goroutine.wait_reason"].GetStringValue()
	if state == "" {
		state = attributes["go.goroutine.state"].GetStringValue()
	}
	plus := func(to map[string][2]int64, key string) {
		sum := to[service+" "+key]
		sum[kind] += s.Values[0]
		to[service+" "+key] = sum
	}
	plus(c.states, state)
	plus(c.functions, function)
	if kind == 1 {
		return
	}
	if l := dict.LinkTable[s.LinkIndex]; s.LinkIndex > 0 {
		c.traces[service+" "+hex.EncodeToString(l.TraceId)+" "+hex.EncodeToString(l.SpanId)] += s.Values[0]
	}
	if route := attributes["route"].GetStringValue(); route != "" {
		c.labels[service+" "+route] += s.Values[0]
	}
}

// collect starts a Collector that writes to a file. It returns its address; stop ends it, so that the file is complete.
func collect(t *testing.T, out string) (address string, stop func()) {
	t.Helper()
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))
	address = l.Addr().String() // nobody listens there from now on
	l.Close()
	config := filepath.Join(t.TempDir(), "config.yaml")
	testenv.OK(t, os.WriteFile(config, fmt.Appendf(nil, `
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {file: {path: %q, format: proto}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [otlp], exporters: [file]}}
`, address, out), 0o600))
	var log bytes.Buffer
	cmd := exec.Command(testenv.Collector(t), "--config="+config, "--feature-gates=service.profilesSupport")
	cmd.Stdout, cmd.Stderr = &log, &log
	testenv.OK(t, cmd.Start())
	ended := false
	stop = func() {
		if !ended {
			ended = true
			cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("the Collector: %v\n%s", err, log.Bytes())
			}
		}
	}
	t.Cleanup(stop)
	listens(t, address)
	return address, stop
}
