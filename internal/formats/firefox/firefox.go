// Package firefox writes the processed profile format of Firefox Profiler, version 66. The page
// profiler.firefox.com opens it, and so does ui.perfetto.dev.
//
// A goroutine or a group of goroutines is a thread. Samples have weights in ms; the time of a
// sample is when its weight begins. A category is a class of states, and a subcategory is a state.
// Each wait is a marker whose name is the runtime's reason, labels are markers called "labels", and
// the numbers of goroutines and of runnable ones are counters.
//
// The color of a function tells what it and its callees do: it is that of a class if all of its
// time is of this class. So a frame of a stack is in the table once for each class, and an
// innermost frame once for each state.
package firefox

import (
	"bytes"
	"io"
	"path"
	"strconv"

	"github.com/gotach/profiler/internal/formats/runs"
	"github.com/gotach/profiler/internal/stream"
)

// options say what is in a file.
var options = runs.Options{Limits: runs.Limits{Tracks: 150, Runs: 300_000}, Lines: true, Waits: true}

// Sniff reports whether a file has this format and is not compressed.
func Sniff(head []byte) bool {
	return bytes.HasPrefix(head, []byte(`{"meta":{`)) && bytes.Contains(head, []byte(`"preprocessedProfileVersion":`))
}

// Write writes the samples of a source, which has labels. It returns sentences that say what the
// file does not have.
func Write(w io.Writer, src *stream.Source) (left []string, err error) { return write(w, src, options) }

func write(w io.Writer, src *stream.Source, o runs.Options) (left []string, err error) {
	s, err := runs.New(src, o)
	if err != nil {
		return nil, err
	}
	for _, t := range s.Tracks {
		if t.Step != 0 && t.Goroutines > 0 {
			s.Left = append(s.Left, "their waits and labels have no markers")
			break
		}
	}
	e := &encoder{Session: s, out: output{w: w}, tables: newTables(s), pid: "1", program: "program"}
	if m := s.Metadata.Session; m != nil {
		e.pid, e.program = strconv.Itoa(m.PID), path.Base(m.Program)
	}
	e.profile()
	e.out.write()
	return s.Left, e.out.err
}
