package tachyon

import (
	"encoding/json"
	"reflect"
	"testing"
)

// numbered returns a Counts whose fields have the numbers n, n+1 and so on.
func numbered(n int64) (c Counts) {
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(n + int64(i))
	}
	return c
}

// Plus and Since handle all fields.
func TestCounts(t *testing.T) {
	a, b := numbered(100), numbered(1000)
	sum := a.Plus(b)
	for i, v := 0, reflect.ValueOf(sum); i < v.NumField(); i++ {
		want := 1100 + 2*int64(i)
		name := v.Type().Field(i).Name
		if name == "MaxGoroutines" {
			want = 1000 + int64(i)
		}
		if got := v.Field(i).Int(); got != want {
			t.Errorf("%s of two parts is %d, want %d", name, got, want)
		}
	}
	a.MaxGoroutines = b.MaxGoroutines
	if back := sum.Since(b); back != a {
		t.Errorf("%+v, want %+v", back, a)
	}
}

// The counts are keys of the session's JSON object, in the order of the first version.
func TestSessionJSON(t *testing.T) {
	b, err := json.Marshal(Session{Rate: 1, Budget: 2, Counts: numbered(10), Error: "e"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"program":"","go_version":"","goos":"","goarch":"","gomaxprocs":0,"host":"","pid":0,` +
		`"start":"0001-01-01T00:00:00Z","duration_ns":0,"source":"","rate":1,"rate_reached":0,"budget_percent":2,` +
		`"cost_ns":10,"ticks_asked":11,"ticks_reached":12,"ticks_for_budget":13,"ticks_idle":14,"samples":15,"dropped":16,"torn":17,` +
		`"max_goroutines":18,"goroutines_omitted":19,"labels_omitted":20,"signal_taken":21,"goroutines_untracked":22,"ticks_refused":23,` +
		`"blind_ns":24,"not_seen_ns":25,"throttled_periods":26,"throttled_ns":27,"process_cpu_ns":28,"error":"e"}`
	if string(b) != want {
		t.Errorf("%s\nwant\n%s", b, want)
	}
}
