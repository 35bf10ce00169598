package nytprof

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"pgregory.net/rapid"
)

// goldens returns the real files of testdata.
func goldens(t testing.TB) []string {
	return testenv.Files(t, "testdata/*.nytprof", 11)
}

// cutOff is the golden whose process was killed.
const cutOff = "testdata/c17-killed.nytprof"

// wantChunks returns what the real reader handed to its callback for a golden.
func wantChunks(t testing.TB, file string) []string {
	return strings.Split(strings.TrimSuffix(string(testenv.Must(os.ReadFile(file+".jsonl"))), "\n"), "\n")
}

// unmarked undoes, in a line of JSON, how a string was marked: perl's UTF-8 mark
// sticks to strings that came after another one that had it.
func unmarked(t testing.TB, line string) any {
	var v []any
	testenv.OK(t, json.Unmarshal([]byte(line), &v))
	for i, e := range v {
		m, ok := e.(map[string]any)
		if !ok {
			continue
		}
		if s, ok := m["utf8"].(string); ok {
			v[i] = s
		} else if s, ok := m["hex"].(string); ok {
			v[i] = string(testenv.Must(hex.DecodeString(s)))
		}
	}
	return v
}

// Files of perl have the chunks that the real reader hands to its callback, are valid, and are the same when they are written again.
func TestGoldens(t *testing.T) {
	for _, file := range goldens(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b := testenv.Must(os.ReadFile(file))
			want := wantChunks(t, file)
			n, marks := 0, 0
			for c, err := range NewReader(bytes.NewReader(b)).Chunks() {
				if err != nil {
					testenv.Same(t, "what ends inside a chunk", file, cutOff)
					testenv.Fails(t, file, err, fmt.Sprintf("offset %d: truncated file: inside TIME_LINE", len(b)-3))
					continue
				}
				if got := strings.TrimSuffix(string(appendJSON(nil, c)), "\n"); n < len(want) && got != want[n] {
					marks++
					testenv.NoDiff(t, fmt.Sprint("chunk ", n), cmp.Diff(unmarked(t, want[n]), unmarked(t, got)))
				}
				n++
			}
			testenv.Same(t, "chunks", n, len(want))
			testenv.FailIf(t, marks > 0 && !strings.Contains(file, "c20"), "%d chunks differ in a UTF-8 mark; only c20 has marks", marks)
			verified, err := Verify(bytes.NewReader(b))
			again, _ := reencode(t, b)
			if file == cutOff {
				testenv.Fails(t, file, err, "truncated")
				testenv.Same(t, "written again", string(again), string(b[:len(b)-3]))
				return
			}
			testenv.OK(t, err)
			deflated := strings.Contains(file, "-z6")
			testenv.Same(t, "chunks, deflated", fmt.Sprint(verified.Chunks, verified.Inflated), fmt.Sprint(len(want), deflated))
			// c20 was made by hand to hold any integer.
			testenv.FailIf(t, len(verified.Warnings) > 0 && !strings.Contains(file, "c20"), "%q, and perl does not warn", verified.Warnings)
			if deflated { // in other bytes
				third, _ := reencode(t, again)
				testenv.Same(t, "written once more", string(third), string(again))
				b, again = chunksOf(t, b), chunksOf(t, again)
			}
			testenv.Same(t, "written again", string(again), string(b))
		})
	}
}

// reencode writes the chunks of a file again.
func reencode(t testing.TB, b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := NewWriter(&out)
	for c, err := range NewReader(bytes.NewReader(b)).Chunks() {
		if err != nil {
			testenv.OK(t, w.Close())
			return out.Bytes(), err
		}
		testenv.OK(t, w.Write(c))
	}
	testenv.OK(t, w.Close())
	return out.Bytes(), nil
}

// chunksOf returns all chunks of a good file as JSON lines.
func chunksOf(t testing.TB, b []byte) (lines []byte) {
	for c := range testenv.All(t, NewReader(bytes.NewReader(b)).Chunks()) {
		lines = appendJSON(lines, c)
	}
	return lines
}

// A cut anywhere gives the chunks before it, then an error, whatever pieces the
// source comes in.
func TestTruncation(t *testing.T) {
	for _, file := range []string{"testdata/c12-utf8.nytprof", "testdata/c02-fib-z6.nytprof", "testdata/c20-integers.nytprof"} {
		b := testenv.Must(os.ReadFile(file))
		all := chunksOf(t, b)
		most := 0
		for cut := range b {
			var got []byte
			var last error
			for c, err := range NewReader(iotest.HalfReader(bytes.NewReader(b[:cut]))).Chunks() {
				testenv.FailIf(t, last != nil, "%s cut at %d: goes on after an error", file, cut)
				if last = err; err == nil {
					got = appendJSON(got, c)
				}
			}
			testenv.FailIf(t, !bytes.HasPrefix(all, got) || len(got) < most, "%s cut at %d: not a prefix of its chunks", file, cut)
			most = len(got)
			var fe *FormatError
			if cut <= firstPID(b) && last == nil {
				continue // attributes alone are a file
			}
			if tail := bytes.Index(b, []byte("#\n# Compressed")); last == nil && tail > 0 && cut >= tail {
				continue // what follows the zlib stream is never read
			}
			testenv.StopIf(t, !errors.As(last, &fe), "%s cut at %d of %d: error %v", file, cut, len(b), last)
			testenv.FailIf(t, fe.Offset > int64(cut) && !fe.Inflated, "%s cut at %d: offset %d", file, cut, fe.Offset)
		}
		testenv.FailIf(t, most == 0, "%s: nothing was read of any prefix", file)
	}
}

// firstPID returns where the lines at the start of a file end.
func firstPID(b []byte) int {
	i := bytes.IndexByte(b, '\n') + 1
	for bytes.IndexByte([]byte("#:!"), b[i]) >= 0 {
		i += bytes.IndexByte(b[i:], '\n') + 1
	}
	return i
}

func TestBadFiles(t *testing.T) {
	head := "NYTProf 5 0\n"
	for _, c := range []struct{ name, file, want string }{
		{"empty", "", "not an NYTProf file"},
		{"other", "HCAT....", "not an NYTProf file"},
		{"version 4", "NYTProf 4 0\n", "version 4.0 is not 5"},
		{"version", "NYTProf five\n", "not two numbers"},
		{"unending version", "NYTProf 5 0", "inside its first line"},
		{"tag", head + "Q", `offset 12: no chunk begins with the byte 'Q'`},
		{"blank line", head + ":a=b\n\nP", "offset 17: a blank line: this is the dialect of Pynytprof"},
		{"string tag", head + "S\x01\x01x", "begins with the byte 0x78"},
		{"hostile string", head + "S\x01\x01'\xff\xff\xff\xff\xff", "a string of 4294967295 bytes"},
		{"long string cut", head + "S\x01\x01'\xff\x00\xff\xff\xff" + strings.Repeat("x", 99), "truncated file: inside SRC_LINE"},
		{"no zlib", head + "zz", "START_DEFLATE"},
		{"damaged zlib", head + "zx\x9c\xff\xff\xff\xff\xff\xff\xff", "inflated offset 13"},
		{"no end", head + "P\x05\x01\x00\x00\x00\x00\x00\x00\x00\x00", "no PID_END of process 5"},
	} {
		var last error
		for _, err := range NewReader(strings.NewReader(c.file)).Chunks() {
			last = err
		}
		testenv.Same(t, c.name, errors.As(last, new(*FormatError)), true)
		testenv.Fails(t, c.name, last, c.want)
	}
}

// What the real reader lets pass.
func TestTolerated(t *testing.T) {
	file := "NYTProf 5 0\n:no equals sign\n:k=v\n+\xff\x00\x00\x00\x05\xc0\x00\x01\x80\x02"
	want := `["VERSION",5,0]
["ATTRIBUTE","k","v"]
["TIME_LINE",5,1,2]
`
	testenv.Same(t, "chunks", string(chunksOf(t, []byte(file))), want)
}

func TestSourceError(t *testing.T) {
	b := testenv.Must(os.ReadFile("testdata/c01-fib.nytprof"))
	broken := errors.New("the disk is gone")
	var last error
	for _, err := range NewReader(io.MultiReader(bytes.NewReader(b[:1001]), iotest.ErrReader(broken))).Chunks() {
		last = err
	}
	testenv.Same(t, "the error is that of the source", errors.Is(last, broken), true)
}

// block encodes n chunks in the mix of a real file: time lines, some discounts
// and returns.
func block(n int) []byte {
	var b []byte
	for i := 0; i < n; i++ {
		switch i % 10 {
		case 4:
			b = (&Discount{}).encode(b)
		case 7:
			b = (&SubReturn{Depth: uint32(i%9 + 1), Incl: float64(i), Excl: 7, Sub: String{Text: "main::work"}}).encode(b)
		default:
			b = (&TimeLine{Ticks: int32(i * 37 % 5000), FID: uint32(i%3 + 1), Line: uint32(i % 700)}).encode(b)
		}
	}
	return b
}

// A file of millions of events is read in constant memory.
func TestConstantMemory(t *testing.T) {
	const perBlock = 100_000
	blocks, b := testenv.Times(20, 1000), block(perBlock)
	file := []io.Reader{strings.NewReader("NYTProf 5 0\n:ticks_per_sec=10000000\n")}
	for range blocks {
		file = append(file, bytes.NewReader(b))
	}
	r := NewReader(io.MultiReader(file...))
	var before, after runtime.MemStats
	n := 0
	for range testenv.All(t, r.Chunks()) {
		if n++; n == perBlock {
			runtime.ReadMemStats(&before)
		}
	}
	runtime.ReadMemStats(&after)
	testenv.Same(t, "chunks", n, 2+perBlock*blocks)
	testenv.Within(t, "bytes allocated for more chunks", after.TotalAlloc-before.TotalAlloc, 0, 1<<20)
}

// draws makes any chunk of a kind.
func draws[T any, C interface {
	*T
	Chunk
}]() *rapid.Generator[Chunk] {
	number := rapid.Custom(func(t *rapid.T) uint32 {
		return rapid.Uint32().Draw(t, "number") >> rapid.IntRange(0, 31).Draw(t, "shift")
	})
	text := rapid.Custom(func(t *rapid.T) String {
		return String{string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "text")), rapid.Bool().Draw(t, "marked")}
	})
	value := rapid.MakeCustom[T](rapid.MakeConfig{
		Types: map[reflect.Type]*rapid.Generator[any]{reflect.TypeFor[String](): text.AsAny()},
		Kinds: map[reflect.Kind]*rapid.Generator[any]{reflect.Uint32: number.AsAny()},
		Fields: map[reflect.Type]map[string]*rapid.Generator[any]{
			reflect.TypeFor[Comment]():   {"Text": rapid.StringMatching(`[^\n]*`).AsAny()},
			reflect.TypeFor[Attribute](): {"Key": rapid.StringMatching(`[^=\n]*`).AsAny(), "Value": rapid.StringMatching(`[^\n]*`).AsAny()},
			reflect.TypeFor[Option]():    {"Key": rapid.StringMatching(`[^=\n]*`).AsAny(), "Value": rapid.StringMatching(`[^\n]*`).AsAny()},
		},
	})
	return rapid.Map(value, func(v T) Chunk { return C(&v) })
}

// chunk draws any chunk that a file can hold after its first line.
var chunk = rapid.OneOf(draws[Comment](), draws[Attribute](), draws[Option](), draws[PIDStart](), draws[PIDEnd](), draws[NewFID](), draws[TimeLine](), draws[TimeBlock](),
	draws[Discount](), draws[SubEntry](), draws[SubReturn](), draws[SrcLine](), draws[SubInfo](), draws[SubCallers]())

func TestChunksSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOfN(chunk, 0, 30).Draw(t, "chunks")
		deflateAt := rapid.IntRange(-1, len(chunks)).Draw(t, "deflate at")
		var file bytes.Buffer
		w := NewWriter(&file)
		want := []Chunk{&Version{5, 1}}
		for i, c := range chunks {
			if i == deflateAt {
				want = append(want, &StartDeflate{})
			}
			want = append(want, c)
		}
		for _, c := range want {
			testenv.OK(t, w.Write(c))
		}
		testenv.OK(t, w.Close())
		i := 0
		for c, err := range NewReader(&file).Chunks() {
			if err != nil {
				if !strings.Contains(err.Error(), "no PID_END") {
					t.Fatal(err)
				}
				continue
			}
			testenv.StopIf(t, i == len(want), "more chunks than written")
			testenv.NoDiff(t, "", cmp.Diff(want[i], c))
			i++
		}
		testenv.Same(t, "chunks", i, len(want))
	})
}

func TestWriterRefuses(t *testing.T) {
	for _, c := range []Chunk{
		&Comment{"two\nlines"},
		&Attribute{"a=b", "c"},
		&Attribute{"a\nb", "c"},
		&Option{"a", "b\nc"},
	} {
		var file bytes.Buffer
		w := NewWriter(&file)
		testenv.Fails(t, "", w.Write(c), "does not fit in a line")
		testenv.FailIf(t, w.Close() == nil || file.Len() > 0, "%#v: written after all", c)
	}
	w := NewWriter(new(bytes.Buffer))
	_ = w.Write(&StartDeflate{})
	testenv.Fails(t, "", w.Write(&StartDeflate{}), "START_DEFLATE twice")
}

type failing struct{ after int }

func (f *failing) Write(b []byte) (int, error) {
	if f.after -= len(b); f.after < 0 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

func TestWriterErrors(t *testing.T) {
	for _, deflate := range []bool{false, true} {
		w := NewWriter(&failing{after: 100_000})
		_ = w.Write(&Version{Major: 5})
		if deflate {
			_ = w.Write(&StartDeflate{Level: 1})
		}
		for i := range 100_000 {
			_ = w.Write(&TimeLine{Ticks: int32(i * i), FID: 1, Line: uint32(i * 7919)})
		}
		testenv.Fails(t, fmt.Sprint("deflated ", deflate), w.Close(), "disk full")
	}
	w := NewWriter(new(bytes.Buffer))
	for range 2 {
		testenv.OK(t, w.Close())
	}
	testenv.Fails(t, "", w.Write(&Discount{}), "closed")
}
