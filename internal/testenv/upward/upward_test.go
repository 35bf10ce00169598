package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

func TestReferences(t *testing.T) {
	rooms, err := read("./testdata/room")
	if err != nil || len(rooms) != 1 {
		t.Fatal(rooms, err)
	}
	var b strings.Builder
	rooms[0].print(&b)
	want := `middle.go uses top.go: part, size
github.com/gotach/profiler/internal/testenv/upward/testdata/room: 4 files, 5 references between them, 1 run up
the package comment does not name nameless.go
`
	testenv.Same(t, "references", b.String(), want)
}

// TestRoomsRunDown holds the number of references that run up in rooms of many files.
func TestRoomsRunDown(t *testing.T) {
	testenv.Long(t)
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		testenv.Skip(t, "the package comments name the files of linux/amd64")
	}
	most := map[string]int{
		"internal/analyze":        1,
		"internal/analyze/diff":   4,
		"internal/analyze/idle":   3,
		"internal/analyze/leaks":  2,
		"internal/analyze/locks":  30,
		"internal/analyze/report": 2,
		"internal/analyze/syntax": 3,
		"internal/session":        0,
		"sampler/internal/cost":   0,
		"internal/goruntime":      0,
		"sampler/internal/native": 2,
	}
	var folders []string
	for folder := range most {
		folders = append(folders, "../../../"+folder)
	}
	rooms := testenv.Must(read(folders...))
	for _, r := range rooms {
		if most, ok := most[strings.TrimPrefix(r.path, "github.com/gotach/profiler/")]; !ok || len(r.up) > most {
			t.Errorf("%s: %d references run up, at most %d did:\n%s", r.path, len(r.up), most, strings.Join(r.up, "\n"))
		}
	}
	testenv.Same(t, "rooms", len(rooms), len(most))
}
