// Package speedscope writes files for speedscope, https://www.speedscope.app: a profile of the type
// "sampled" for each goroutine or group of goroutines, with weights in ns.
//
// The format has neither states nor labels. A state that no frame tells is an innermost frame of
// its own, such as "[no core]".
package speedscope

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/formats/runs"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// options say what is in a file. A sample of the format has all its frames, so their number is
// bounded too.
var options = runs.Options{Limits: runs.Limits{Tracks: 150, Runs: 300_000, Frames: 4_000_000}, StateFrames: true}

const schema = "https://www.speedscope.app/file-format-schema.json"

// Sniff reports whether a file has this format.
func Sniff(head []byte) bool {
	return bytes.HasPrefix(head, []byte("{")) && bytes.Contains(head[:min(len(head), 200)], []byte(schema))
}

// Write writes the samples of a source. It returns sentences that say what the file does not have.
func Write(w io.Writer, src *stream.Source) (left []string, err error) { return write(w, src, options) }

func write(w io.Writer, src *stream.Source, o runs.Options) (left []string, err error) {
	s, err := runs.New(src, o)
	if err != nil {
		return nil, err
	}
	b := bufio.NewWriterSize(w, 64<<10)
	name := "profile"
	if m := s.Metadata.Session; m != nil {
		name = m.Program
	}
	if len(s.Left) > 0 {
		name += " (" + strings.Join(s.Left, "; ") + ")"
	}
	// The page shows the profiles in this order. The first one is what took most CPU time.
	slices.SortStableFunc(s.Tracks, func(a, b runs.Track) int { return cmp.Compare(cpu(&b), cpu(&a)) })
	if err := put(b, "{\"$schema\":%s,\"exporter\":\"gotach\",\"name\":%s,\"activeProfileIndex\":0,\"shared\":{\"frames\":[", schema, name); err != nil {
		return nil, err
	}
	type frame struct {
		Name string `json:"name"`
		File string `json:"file,omitempty"`
	}
	for i, f := range s.Frames {
		text, err := json.Marshal(frame{profile.FuncName(f.Func), f.File})
		if err != nil {
			return nil, err
		}
		b.WriteString(comma(i))
		b.Write(text)
	}
	b.WriteString("]},\n\"profiles\":[")
	for i := range s.Tracks {
		b.WriteString(comma(i))
		if err := track(b, s, &s.Tracks[i]); err != nil {
			return nil, err
		}
	}
	b.WriteString("]}\n")
	return s.Left, b.Flush()
}

// track writes a track as a profile.
func track(b *bufio.Writer, s *runs.Session, t *runs.Track) error {
	if err := put(b, "\n{\"type\":\"sampled\",\"name\":%s,\"unit\":%s,", t.Name, "nanoseconds"); err != nil {
		return err
	}
	begin := time.Duration(0)
	if len(t.Runs) > 0 {
		begin = t.Runs[0].Begin
	}
	end := begin
	var text []byte
	var path []uint32
	b.WriteString(`"samples":[`)
	for i := range t.Runs {
		path = s.Path(path[:0], t.Runs[i].Stack)
		text = append(append(text[:0], comma(i)...), '[')
		for j, f := range path {
			text = strconv.AppendUint(append(text, comma(j)...), uint64(f), 10)
		}
		b.Write(append(text, ']'))
	}
	b.WriteString(`],"weights":[`)
	for i := range t.Runs {
		text = strconv.AppendInt(append(text[:0], comma(i)...), int64(t.Runs[i].Wall), 10)
		b.Write(text)
		end += t.Runs[i].Wall
	}
	fmt.Fprintf(b, `],"startValue":%d,"endValue":%d}`, begin, end)
	return nil
}

// put writes texts as JSON strings, each where the format has %s.
func put(b *bufio.Writer, format string, texts ...string) error {
	for _, text := range texts {
		before, after, _ := strings.Cut(format, "%s")
		quoted, err := json.Marshal(text)
		if err != nil {
			return err
		}
		b.WriteString(before)
		b.Write(quoted)
		format = after
	}
	_, err := b.WriteString(format)
	return err
}

// comma returns what is before the element i of a list.
func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// cpu returns the CPU time of a track.
func cpu(t *runs.Track) (sum float64) {
	for i := range t.Runs {
		sum += float64(t.Runs[i].CPU)
	}
	return sum
}
