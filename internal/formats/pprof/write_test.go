package pprof

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// many makes a profile of n records with a label of their own, of so many bytes.
func many(n, size int) *profile.Profile {
	b := profile.NewBuilder()
	f := b.Frame(profile.Frame{Func: "main.f", File: "f.go", Line: 3}, 1)
	for i := range n {
		b.Add(profile.Record{
			Goroutine: uint64(i + 1), State: profile.Running, Stack: []uint32{f}, Count: 1, Wall: time.Second, CPU: time.Second,
			Labels: map[string]string{"request": fmt.Sprint(strings.Repeat("x", size), i)},
		})
	}
	return b.Finish()
}

// The values of labels may take much memory; they are written as they come.
func TestManyLabels(t *testing.T) {
	const n, size = 110, 160 << 10
	p := many(n, size)
	var b bytes.Buffer
	testenv.OK(t, Write(&b, p))
	got := testenv.Must(Read(&b))
	if len(got.Records) != n {
		t.Fatalf("%d records, want %d", len(got.Records), n)
	}
	for i := range got.Records {
		if got.Records[i].Labels["request"] != p.Records[i].Labels["request"] || got.Records[i].Goroutine != p.Records[i].Goroutine {
			t.Fatalf("record %d is %+v, want %+v", i, got.Records[i], p.Records[i])
		}
	}
}

// A table forgets values when there are too many, and nothing else.
func TestManyValues(t *testing.T) {
	var table stringTable
	table.add("")
	name := table.add("name")
	first := table.value("first")
	if table.value("first") != first || table.add("first") != first || table.value("name") != name {
		t.Error("a string has two numbers")
	}
	for i := range maxValues {
		table.value(fmt.Sprint("v", i))
	}
	if n := table.value("first"); n == first || len(table.values) > maxValues {
		t.Errorf("the first value has number %d again, %d are known", n, len(table.values))
	}
	if table.add("name") != name || table.value("name") != name {
		t.Error("the table forgot a name")
	}
}

// fails is a writer that fails.
type fails struct{}

var errFails = errors.New("no room")

func (fails) Write([]byte) (int, error) { return 0, errFails }

func TestWriteFails(t *testing.T) {
	for _, n := range []int{0, 5000} {
		if err := Write(fails{}, many(n, 1000)); !errors.Is(err, errFails) {
			t.Errorf("with %d records the error is %v", n, err)
		}
	}
}
