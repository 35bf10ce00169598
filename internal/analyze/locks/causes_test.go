package locks

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

// causeSums is what the causes of a kind come to, in µs.
type causeSums struct{ right, wrong, unknown uint64 }

func (c causeSums) String() string {
	share := 100.0
	if given := c.right + c.wrong; given > 0 {
		share = 100 * float64(c.right) / float64(given)
	}
	return fmt.Sprintf("%5.1f %% of %4d ms right, %4d ms unknown", share, (c.right+c.wrong)/1000, c.unknown/1000)
}

// labelSpan is the labels of a goroutine of testdata/peers/causes until a time.
type labelSpan struct {
	end       uint64
	until, is string
}

// judgeCauses follows the waits in a profile of testdata/peers/causes and compares their causes with the labels. The sums are by role and
// label.
func judgeCauses(t *testing.T, f *reader.Reader) map[string]*causeSums {
	t.Helper()
	options := stream.Options{Labels: true, Objects: true}
	spans := map[uint64][]labelSpan{}
	s := analyzetest.SamplesOf(t, options, f)
	for x := range testenv.All(t, s.All()) {
		span := labelSpan{end: x.At}
		if x.Labels != nil {
			span.until, _ = x.Labels.Get("until")
			span.is, _ = x.Labels.Get("is")
		}
		list := spans[x.Goroutine]
		if n := len(list); n > 0 && list[n-1].until == span.until && list[n-1].is == span.is {
			list[n-1].end = x.At
			continue
		}
		spans[x.Goroutine] = append(list, span)
	}
	at := func(g, time uint64) labelSpan {
		list := spans[g]
		i, _ := slices.BinarySearchFunc(list, time, func(s labelSpan, time uint64) int { return cmp.Compare(s.end, time) })
		if i == len(list) {
			return labelSpan{}
		}
		return list[i]
	}
	sums := map[string]*causeSums{}
	w := newWaitChains(analyzetest.SamplesOf(t, options, f), WaitOptions{Func: regexp.MustCompile(`^main\.`), Options: Options{Source: readCauses}})
	w.onCause = func(c *cause) {
		until := at(c.waiter, c.at).until
		if c.waiter == 0 || until == "" {
			return
		}
		kind, _, _ := strings.Cut(until, "-")
		key := cmp.Or(c.role, c.name, "unknown") + " / " + kind
		sum := sums[key]
		if sum == nil {
			sum = &causeSums{}
			sums[key] = sum
		}
		name, named := strings.CutPrefix(until, "name:")
		switch {
		case named && c.name != "" && !strings.HasPrefix(c.name, name), !named && c.by != 0 && at(c.by, c.at).is != until:
			sum.wrong += c.time
		case named && c.name != "", !named && c.by != 0:
			sum.right += c.time
		default:
			sum.unknown += c.time
		}
	}
	testenv.Must(w.find())
	return sums
}

// readCauses reads the text of testdata/peers/causes, whose names in recordings are those of -trimpath.
func readCauses(name string) *source.File {
	if i := strings.LastIndex(name, "/testdata/"); i >= 0 {
		name = name[i+len("/testdata/"):]
	}
	text, err := os.ReadFile("../../../bench/e2e/testdata/" + name)
	if err != nil {
		return nil
	}
	return &source.File{Text: text}
}

// addCauses adds sums by role and label to those by role.
func addCauses(all, sums map[string]*causeSums) {
	for key, sum := range sums {
		role, _, _ := strings.Cut(key, " / ")
		if all[role] == nil {
			all[role] = &causeSums{}
		}
		all[role].right += sum.right
		all[role].wrong += sum.wrong
		all[role].unknown += sum.unknown
	}
}

// causesPlanted are the kinds of testdata/peers/causes, and answers that each has at least.
var causesPlanted = map[string][]string{
	"consumers": {"other side / ranged", "other side / called", "other side / selected", "other side / jobs"},
	"answers":   {"other side / sender"},
	"children":  {"child / child", "child / closerchild", "last child / group"},
	"places":    {"holds / place", "holds / group"},
	"sqlpool":   {"holds / small"},
	"transport": {"holds / conn", "a response of an HTTP server / name:a response of an HTTP server"},
	"handlers":  {"holds / small"},
}

// TestCauses looks at recordings of a program on database/sql, net/http and errgroup whose labels say what each goroutine waits for. A
// kind of answer is right in at least 95 % of the time that has it, and all small pools and slow consumers are found. To record anew,
// run in bench/e2e/testdata/peers, for each KIND:
//
//	GOWORK=off go run -trimpath ./causes KIND 1500ms ../../../../internal/analyze/testdata/causes/KIND.tach
func TestCauses(t *testing.T) {
	all := map[string]*causeSums{}
	for kind, planted := range causesPlanted {
		f := testenv.Must(reader.Open("../testdata/causes/" + kind + ".tach"))
		sums := judgeCauses(t, f)
		for _, key := range planted {
			if sums[key] == nil || sums[key].right < 100_000 {
				t.Errorf("%s: %s: %v", kind, key, sums[key])
			}
		}
		addCauses(all, sums)
		testenv.OK(t, f.Close())
	}
	for role, sum := range all {
		if sum.wrong*20 > sum.right+sum.wrong {
			t.Errorf("%s: %v", role, sum)
		}
	}
}
