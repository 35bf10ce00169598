//go:build peers

package fleet

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"
	"github.com/gotach/profiler/internal/testenv/cmp"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

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
	t.Helper()
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
		if err := cmd.Wait(); err != nil {
			t.Errorf("Parca: %v", err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("Parca printed %q: %v", address, err)
	}
	return &parca{t: t, address: strings.TrimSpace(address)}
}

// get returns the answer to a request with one parameter.
func (p *parca) get(path, key, value string) []byte {
	p.t.Helper()
	r := testenv.Must(http.Get("http://" + p.address + path + "?" + url.Values{key: {value}}.Encode()))
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		p.t.Fatalf("%s %s: %s %s %v", path, value, r.Status, b, err)
	}
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
