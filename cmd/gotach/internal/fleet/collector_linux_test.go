//go:build peers

package fleet

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"

	pprof "github.com/google/pprof/profile"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"
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
	testenv.FailIf(t, got.labels["shop /search"] == 0 || got.labels["stock /search"] == 0, "labels %v", got.labels)
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
			err := cmd.Wait()
			testenv.FailIf(t, err != nil, "the Collector: %v\n%s", err, log.Bytes())
		}
	}
	t.Cleanup(stop)
	listens(t, address)
	return address, stop
}

// What push sends is stored in Parca. Of what came as OTLP, its queries return the sums of the reports for each service and
// state, and for a label of the program; of what came as pprof, those for each service and function.
func TestPeerParca(t *testing.T) {
	testenv.Night(t, "building Parca takes minutes")
	dir := t.TempDir()
	writeFleet(t, dir)
	p := startParca(t)
	send(t, dir, "otlp+http://"+p.address)
	send(t, dir, "pyroscope+http://"+p.address)
	p.types = strings.Fields(string(p.get("/types", "", "")))

	t.Run("OTLP", func(t *testing.T) {
		q := parcaQuery{p, "github_com_gotach_profiler"}
		testenv.NoDiff(t, "states", cmp.Diff(reports(t, dir, profile.ByState), q.states(t)))
		q.routes(t)
		// Parca 0.28 takes the names of OTLP's functions from the entry before the right one. So only the sums can be right.
		testenv.Same(t, "all functions", values(q.functions(t)), values(reports(t, dir, profile.ByFunction)))
	})
	t.Run("pprof", func(t *testing.T) {
		q := parcaQuery{p, "pprof"}
		testenv.NoDiff(t, "functions", cmp.Diff(reports(t, dir, profile.ByFunction), q.functions(t)))
	})
}

// values returns the sum of sums.
func values(sums map[string][2]int64) (all [2]int64) {
	for _, s := range sums {
		all[0] += s[0]
		all[1] += s[1]
	}
	return all
}

// A parcaQuery asks for the profiles of one name.
type parcaQuery struct {
	*parca
	name string
}

// states returns wall and CPU time by service and state, or what was waited for.
func (q parcaQuery) states(t *testing.T) map[string][2]int64 {
	t.Helper()
	all := map[string][2]int64{}
	for _, service := range q.services() {
		rest := values(q.sums("service_name", service))
		for _, label := range []string{"go_goroutine_wait_reason", "go_goroutine_state"} {
			for _, state := range q.list("label", label) {
				if state == profile.Waiting { // these are there with their reasons
					continue
				}
				if sum := values(q.sums("service_name", service, label, state)); sum != [2]int64{} {
					all[service+" "+state] = sum
					rest[0] -= sum[0]
					rest[1] -= sum[1]
				}
			}
		}
		testenv.Same(t, service+" without a state", rest, [2]int64{})
	}
	return all
}

// functions returns wall and CPU time by service and function.
func (q parcaQuery) functions(t *testing.T) map[string][2]int64 {
	all := map[string][2]int64{}
	for _, service := range q.services() {
		for function, sum := range q.sums("service_name", service) {
			all[service+" "+function] = sum
		}
	}
	return all
}

// routes checks the wall time by a label of the program.
func (q parcaQuery) routes(t *testing.T) {
	t.Helper()
	got := map[string]int64{}
	for _, service := range q.services() {
		got[service] = values(q.sums("service_name", service, "route", "/search"))[0]
	}
	// Two of four goroutines of each process have the label all the time. In one minute, one of two processes has it from the fifth
	// second on. A sample stands for the 10 ms before it.
	const minute, late = int64(60e9), int64(5e9 - 10e6)
	testenv.NoDiff(t, "the label route", cmp.Diff(map[string]int64{"shop": 2*3*minutes*minute - late, "stock": 2*minutes*minute - late}, got))
}

// A parca is a running one.
type parca struct {
	t       *testing.T
	address string
	types   []string // of the profiles
}

func startParca(t *testing.T) *parca {
	t.Helper()
	cmd := exec.Command(testenv.Parca(t))
	cmd.Stderr = os.Stderr
	in := testenv.Must(cmd.StdinPipe())
	out := testenv.Must(cmd.StdoutPipe())
	testenv.OK(t, cmd.Start())
	t.Cleanup(func() {
		in.Close() // ends it
		testenv.Fails(t, "Parca", cmd.Wait(), "")
	})
	return &parca{t: t, address: strings.TrimSpace(testenv.Must(bufio.NewReader(out).ReadString('\n')))}
}

// get returns the answer to a request with one parameter.
func (p *parca) get(path, key, value string) []byte {
	p.t.Helper()
	r := testenv.Must(http.Get("http://" + p.address + path + "?" + url.Values{key: {value}}.Encode()))
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	testenv.StopIf(p.t, err != nil || r.StatusCode != http.StatusOK, "%s %s: %s %s %v", path, value, r.Status, b, err)
	return b
}

// services returns the names of the services.
func (p *parca) services() []string { return p.list("label", "service_name") }

// list returns the lines of an answer with values.
func (p *parca) list(key, value string) []string {
	p.t.Helper()
	return strings.FieldsFunc(string(p.get("/values", key, value)), func(r rune) bool { return r == '\n' })
}

// sums returns wall and CPU time by function, of what has some labels.
func (q parcaQuery) sums(labels ...string) map[string][2]int64 {
	q.t.Helper()
	var match []string
	for i := 0; i < len(labels); i += 2 {
		match = append(match, labels[i]+`="`+labels[i+1]+`"`)
	}
	out := map[string][2]int64{}
	for kind, name := range []string{"wall", "cpu"} {
		for _, t := range q.types {
			if !strings.HasPrefix(t, q.name+":"+name+":") {
				continue
			}
			b := q.get("/query", "query", t+"{"+strings.Join(match, ",")+"}")
			if len(b) == 0 {
				continue
			}
			for _, s := range testenv.Must(pprof.ParseData(b)).Sample {
				function := s.Location[0].Line[0].Function.Name
				sum := out[function]
				sum[kind] += s.Value[0]
				out[function] = sum
			}
		}
	}
	return out
}
