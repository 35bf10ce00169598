package push

import (
	"encoding/json"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"
	"github.com/gotach/profiler/internal/testenv/cmp"

	"github.com/gotach/profiler/internal/testenv"
)

// Pyroscope gets each file as a pprof profile in a form, with a name, its labels and its time. The sums are the file's.
func TestPyroscope(t *testing.T) {
	dir, _, _ := received(t, 2, 2)
	got := sums{}
	var refused atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if keys := strings.Join(slices.Sorted(maps.Keys(q)), " "); r.URL.Path != "/tenant/ingest" || keys != "from name spyName until" || r.Header.Get("X-Scope-OrgID") != "a" {
			t.Errorf("%s with %v", r.URL, r.Header)
		}
		if refused.CompareAndSwap(false, true) { // the first one comes again
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		must(r.ParseMultipartForm(1 << 20))
		part := func(name string) multipart.File { return testenv.Must(r.MultipartForm.File[name][0].Open()) }
		p := testenv.Must(pprof.Parse(part("profile")))
		types := map[string]struct{ Units string }{}
		must(json.NewDecoder(part("sample_type_config")).Decode(&types))
		var sum [2]time.Duration
		for i, st := range p.SampleType {
			testenv.Same(t, "the unit of "+st.Type, types[st.Type].Units, st.Unit)
			for _, s := range p.Sample {
				switch st.Type {
				case "wall":
					sum[0] += time.Duration(s.Value[i])
				case "cpu":
					sum[1] += time.Duration(s.Value[i])
				}
			}
		}
		name := q.Get("name")
		pid, ok := strings.CutPrefix(name, "my/shop_{deployment_environment_name=prod_x_,hostname=web-1,pid=")
		pid, _, ok2 := strings.Cut(pid, ",")
		if !ok || !ok2 || !strings.HasSuffix(name, ",service_version=v1.4.2}") {
			t.Errorf("the name is %s", name)
		}
		from, _ := strconv.ParseInt(q.Get("from"), 10, 64)
		until, _ := strconv.ParseInt(q.Get("until"), 10, 64)
		testenv.Same(t, "the length", until-from, int64(time.Second))
		got[pid+" at "+strconv.FormatInt(from/1000, 10)] = sum
	}))
	defer server.Close()
	m := NewMetrics()
	target, name, key, err := Open("pyroscope+"+strings.Replace(server.URL, "//", "//ann:secret@", 1)+"/tenant/", TargetOptions{
		Header: http.Header{"X-Scope-Orgid": {"a"}}, Resource: [][2]string{{"service.name", "my/shop!"}, {"deployment.environment.name", "prod{x}"}}, Metrics: m,
	})
	must(err)
	defer target.Close()
	if strings.Contains(name, "secret") {
		t.Errorf("the password is in the name %s", name)
	}
	err = push(t, Options{Dir: dir, Target: target, Name: name, Key: key, Once: true, Backoff: time.Millisecond, Metrics: m})
	if err != nil || m.Files("sent") != 4 {
		t.Errorf("%v, %d files sent", err, m.Files("sent"))
	}
	testenv.NoDiff(t, "", cmp.Diff(profiled(t, dir), got))
}
