package nytprof

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"pgregory.net/rapid"
)

// chunk draws any chunk that a file can hold after its first line.
func chunk(t *rapid.T) Chunk {
	u := func(name string) uint32 {
		shift := rapid.IntRange(0, 31).Draw(t, "shift")
		return rapid.Uint32().Draw(t, name) >> shift
	}
	nv := func(name string) float64 { return rapid.Float64().Draw(t, name) }
	str := func(name string) String {
		return String{string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, name)), rapid.Bool().Draw(t, "marked")}
	}
	key := rapid.StringMatching(`[^=\n]*`)
	text := rapid.StringMatching(`[^\n]*`)
	switch rapid.IntRange(0, 13).Draw(t, "kind") {
	case 0:
		return &Comment{text.Draw(t, "text")}
	case 1:
		return &Attribute{key.Draw(t, "key"), text.Draw(t, "value")}
	case 2:
		return &Option{key.Draw(t, "key"), text.Draw(t, "value")}
	case 3:
		return &PIDStart{u("pid"), u("parent"), nv("time")}
	case 4:
		return &PIDEnd{u("pid"), nv("time")}
	case 5:
		return &NewFID{u("fid"), u("eval fid"), u("eval line"), Flags(u("flags")), u("size"), u("mtime"), str("name")}
	case 6:
		return &TimeLine{int32(u("ticks")), u("fid"), u("line")}
	case 7:
		return &TimeBlock{int32(u("ticks")), u("fid"), u("line"), u("block"), u("sub")}
	case 8:
		return &Discount{}
	case 9:
		return &SubEntry{u("fid"), u("line")}
	case 10:
		return &SubReturn{u("depth"), nv("incl"), nv("excl"), str("sub")}
	case 11:
		return &SrcLine{u("fid"), u("line"), str("text")}
	case 12:
		return &SubInfo{u("fid"), u("first"), u("last"), str("name")}
	}
	return &SubCallers{u("fid"), u("line"), u("count"), nv("incl"), nv("excl"), nv("reci"), u("depth"), str("called"), str("caller")}
}

func TestChunksSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOfN(rapid.Custom(chunk), 0, 30).Draw(t, "chunks")
		deflateAt := rapid.IntRange(-1, len(chunks)).Draw(t, "deflate at")
		var file bytes.Buffer
		w := NewWriter(&file)
		write := func(c Chunk) {
			testenv.OK(t, w.Write(c))
		}
		write(&Version{5, 1})
		var want []Chunk
		want = append(want, &Version{5, 1})
		for i, c := range chunks {
			if i == deflateAt {
				write(&StartDeflate{Level: 1})
				want = append(want, &StartDeflate{})
			}
			write(c)
			want = append(want, c)
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
			if i == len(want) {
				t.Fatal("more chunks than written")
			}
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
		if w.Close() == nil || file.Len() > 0 {
			t.Errorf("%#v: written after all", c)
		}
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
