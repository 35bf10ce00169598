package nytprof

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

func TestVerifyGoldens(t *testing.T) {
	for _, file := range goldens(t) {
		b := testenv.Must(os.ReadFile(file))
		c, err := Verify(bytes.NewReader(b))
		if file == cutOff {
			testenv.Fails(t, file, err, "truncated")
			continue
		}
		testenv.OK(t, err)
		testenv.Same(t, file, fmt.Sprint(c.Chunks, c.Inflated), fmt.Sprint(len(wantChunks(t, file)), strings.Contains(file, "-z6")))
		// c20 was made by hand to hold any integer.
		if base := filepath.Base(file); len(c.Warnings) > 0 && !strings.HasPrefix(base, "c20") {
			t.Errorf("%s: %q, and perl does not warn", base, c.Warnings)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	head := "NYTProf 5 0\n:ticks_per_sec=10000000\n"
	fid := "@\x01\x00\x00\x06\x00\x00'\x01a"
	for _, c := range []struct{ name, file, want string }{
		{"ticks late", "NYTProf 5 0\n" + fid + "+\x01\x01\x01:ticks_per_sec=1\n", "offset 22: TIME_LINE before the attribute ticks_per_sec"},
		{"no ticks", "NYTProf 5 0\n:ticks_per_sec=0\n", "not a number of 32 bits"},
		{"doubles", head + ":nv_size=16\n", "nv_size"},
		{"sub's file", head + "s\x01'\x01a\x01\x01", "SUB_INFO names file 1 before its NEW_FID"},
		{"hole", head + fid + strings.Replace(fid, "\x01", "\x03", 1), "to be consecutive"},
	} {
		testenv.Fails(t, c.name, testenv.Err(Verify(strings.NewReader(c.file))), c.want)
	}
	for _, c := range []struct{ name, file, want string }{
		{"discounts", head + "--", "two DISCOUNTs"},
		{"twice", head + fid + "s\x01'\x01a\x01\x01s\x01'\x01a\x01\x01", `"a" is defined twice`},
		{"long", head + fid + "+\x01\x01\x01", "statements took 1e-07 s in a life of 0 s"},
		{"overhead", head, "no attribute cumulative_overhead_ticks"},
		{"end alone", head + "p\x05\x00\x00\x00\x00\x00\x00\x00\x00", "PID_END of process 5 without"},
	} {
		testenv.Has(t, c.name, strings.Join(testenv.Must(Verify(strings.NewReader(c.file))).Warnings, "; "), c.want)
	}
}

func TestRecode(t *testing.T) {
	raw := testenv.Must(os.ReadFile("testdata/c01-fib.nytprof"))
	var deflated, back bytes.Buffer
	testenv.OK(t, Recode(&deflated, bytes.NewReader(raw), false))
	testenv.OK(t, Recode(&back, bytes.NewReader(deflated.Bytes()), true))
	if deflated.Len() > len(raw)/2 || !bytes.Equal(back.Bytes(), raw) {
		t.Errorf("%d bytes became %d and %d", len(raw), deflated.Len(), back.Len())
	}
}

// addGoldens seeds a fuzz target with the real files and hostile ones.
func addGoldens(f *testing.F) {
	for _, file := range goldens(f) {
		b := testenv.Must(os.ReadFile(file))
		f.Add(b[:min(len(b), 8<<10)])
	}
	f.Add([]byte("NYTProf 5 0\nS\x01\x01'\xff\x00\xff\xff\xff"))
	f.Add([]byte("NYTProf 5 0\n@\xff\xff\xff\xff\xff\x00\x00\x06\x00\x00'\x01a+\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
}

func FuzzReader(f *testing.F) {
	addGoldens(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var out []byte
		inflated := 0
		grown := testenv.Allocated(func() {
			for c, err := range NewReader(bytes.NewReader(b)).Chunks() {
				if err == nil {
					out = c.encode(out[:0])
					inflated += len(out)
				}
			}
		})
		// Buffers, then every chunk once and once more as out.
		testenv.Within(t, "bytes allocated", grown, 0, uint64(1<<20+8*(len(b)+inflated)))
		again, err := reencode(t, b)
		if err != nil && len(again) == 0 {
			return
		}
		third, _ := reencode(t, again)
		testenv.Same(t, "what was written", string(third), string(again))
	})
}
