package analyzetest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

// A Session is a recording of a program in testdata/record, and what the program says of itself.
// See testdata/README.md.
type Session struct {
	Name, Path string
	File       *reader.Reader
	Truth      truth
}

// A truth is what a program says of itself. Times are in µs.
type truth struct {
	Begin    int64
	Holds    map[string][]Hold // by the lock's address
	Requests [][2]int64        // how long each took, and what of that was in the longer path
	Leaked   int
	Waited   int64 // time in what was planted
}

// A Hold is a goroutine and the time from when until when it held a lock.
type Hold [3]int64

// OpenSession opens a session in a folder.
func OpenSession(t testing.TB, dir, name string) *Session {
	t.Helper()
	s := &Session{Name: name, Path: filepath.Join(dir, name)}
	var err error
	if s.File, err = reader.Open(s.Path + ".tach"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.File.Close() })
	f := testenv.Must(os.Open(s.Path + ".log.gz"))
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&s.Truth)
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(s.Truth.Requests, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return s
}

// Samples returns the samples of the session with all that analyses ask for.
func (s *Session) Samples(t testing.TB) *analyze.Samples {
	t.Helper()
	return SamplesOf(t, stream.Options{Labels: true, Objects: true}, s.File)
}

// SourceOfSessions reads the text of the programs, whose paths in sessions are those of -trimpath.
func SourceOfSessions(name string) *source.File {
	text, err := os.ReadFile(filepath.Join("../testdata/record", strings.TrimPrefix(name, programs)))
	if err != nil {
		return nil
	}
	return &source.File{Text: text}
}

const programs = "github.com/gotach/profiler/internal/analyze/testdata/record/"

// manyDigits are numbers whose last digits are not the same on all processors.
var manyDigits = regexp.MustCompile(`(\.\d{4})\d+`)

func PrintFinding(t *testing.T, out io.Writer, kind string, finding any) {
	t.Helper()
	b := testenv.Must(json.Marshal(finding))
	fmt.Fprintf(out, "%s %s\n", kind, bytes.ReplaceAll(manyDigits.ReplaceAll(b, []byte("$1")), []byte(programs), nil))
}

// Logged returns a quantile of the lengths of requests by the log.
func (s *Session) Logged(q float64) time.Duration {
	return analyze.Micros(uint64(s.Truth.Requests[int(q*float64(len(s.Truth.Requests)-1))][0]))
}

// Slowest is the share of requests that are slow here. On a busy machine others than those of the
// longer path are slow too.
const Slowest = 0.03
