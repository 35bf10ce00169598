package main

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A mutant changes the bytes of a file, by seeds.
type mutant struct{ *rand.Rand }

// hostileNumbers are values at which calculations go wrong.
var hostileNumbers = []uint64{0, 1, 0x7f, 0x80, 0xff, 0xffff, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 52, 1<<53 + 1, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1}

// change returns changed bytes: bits flipped, the end cut off, a part removed, twice, replaced by another part, or by a number.
func (m mutant) change(b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + m.IntN(3)*m.IntN(3) {
		if len(b) < 4 {
			return b
		}
		at := m.IntN(len(b))
		if m.IntN(3) == 0 {
			at = m.IntN(min(len(b), 100)) // in the header
		}
		size := min(len(b)-at, 1+m.IntN(40))
		n := hostileNumbers[m.IntN(len(hostileNumbers))]
		switch m.IntN(9) {
		case 0:
			b[at] ^= 1 << m.IntN(8)
		case 1:
			b[at] = byte(m.Uint32())
		case 2:
			if m.IntN(4) == 0 {
				b = b[:at]
			}
		case 3:
			b = slices.Delete(b, at, at+size)
		case 4:
			b = slices.Insert(b, at, b[at:at+size]...)
		case 5:
			from := m.IntN(len(b) - size + 1)
			copy(b[at:], b[from:from+size])
		case 6: // a varint
			_, k := binary.Uvarint(b[at:])
			b = slices.Replace(b, at, at+max(0, k), binary.AppendUvarint(nil, n)...)
		case 7: // a fixed number
			copy(b[at:], binary.LittleEndian.AppendUint64(nil, n)[:4<<m.IntN(2)])
		case 8: // a decimal number, where there is one
			for end := at; end < len(b); end++ {
				if b[end] < '0' || b[end] > '9' {
					if end > at {
						b = slices.Replace(b, at, end, fmt.Appendf(nil, "%d", n)...)
					}
					break
				}
			}
		}
	}
	return b
}

// A sprout is a file that is changed, and how.
type sprout struct {
	name   string
	files  map[string][]byte // by the end of the name; the first is the one that is read
	change func(m mutant, files map[string][]byte)
}

// plainly changes one of the files.
func plainly(m mutant, files map[string][]byte) {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[m.IntN(len(names))]
	files[name] = m.change(files[name])
}

// gzipped changes what a file has when it is unpacked.
func gzipped(end string) func(mutant, map[string][]byte) {
	return func(m mutant, files map[string][]byte) {
		if m.IntN(4) == 0 {
			plainly(m, files)
			return
		}
		raw := testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(bytes.NewReader(files[end])))))
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		testenv.Must(w.Write(m.change(raw)))
		must(w.Close())
		files[end] = b.Bytes()
	}
}

// deflated changes what stands behind the first z of a NYTProf file.
func deflated(m mutant, files map[string][]byte) {
	b := files[".nytprof"]
	at := bytes.Index(b, []byte("\nz")) + 2
	if at < 2 || m.IntN(4) == 0 {
		plainly(m, files)
		return
	}
	raw := testenv.Must(io.ReadAll(testenv.Must(zlib.NewReader(bytes.NewReader(b[at:])))))
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	testenv.Must(w.Write(m.change(raw)))
	must(w.Close())
	files[".nytprof"] = append(bytes.Clone(b[:at]), z.Bytes()...)
}

// tachyonParts changes the samples, or what is behind them, and keeps the offsets right.
func tachyonParts(m mutant, files map[string][]byte) {
	b := files[".tach"]
	if m.IntN(4) == 0 {
		plainly(m, files)
		return
	}
	le := binary.LittleEndian
	at := [4]int{tachyon.HeaderSize, int(le.Uint64(b[32:])), int(le.Uint64(b[40:])), len(b) - tachyon.FooterSize}
	parts := [][]byte{b[at[0]:at[1]], b[at[1]:at[2]], b[at[2]:at[3]]}
	which := m.IntN(3)
	packed := le.Uint32(b[48:]) == tachyon.CompressionZstd
	if which == 0 && packed {
		raw := testenv.Must(testenv.Must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))).DecodeAll(parts[0], nil))
		parts[0] = testenv.Must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))).EncodeAll(m.change(raw), nil)
	} else {
		parts[which] = m.change(parts[which])
	}
	out := append(bytes.Clone(b[:tachyon.HeaderSize]), bytes.Join(parts, nil)...)
	out = append(out, b[at[3]:]...)
	le.PutUint64(out[32:], uint64(at[0]+len(parts[0])))
	le.PutUint64(out[40:], uint64(at[0]+len(parts[0])+len(parts[1])))
	le.PutUint64(out[len(out)-24:], uint64(len(out)))
	if m.IntN(2) == 0 { // more samples and threads than there are, so that none is too many
		le.PutUint32(out[24:], 1<<20)
	}
	files[".tach"] = out
}

// sprouts returns the files that are changed.
func sprouts(t *testing.T) (list []sprout) {
	t.Helper()
	dir := t.TempDir()
	tach := func(name string, packed bool, fill func(*fixture, []string), args ...string) []byte {
		path := filepath.Join(dir, name)
		writeFixture(path, fill, args...)
		if packed {
			convertTo(path, path, "tach")
		}
		return testenv.Must(os.ReadFile(path))
	}
	convert := func(from, format string, args ...string) []byte {
		path := filepath.Join(dir, "x."+format)
		convertTo(filepath.Join(dir, from), path, format, args...)
		return testenv.Must(os.ReadFile(path))
	}
	for name, fill := range map[string]func(*fixture, []string){"quota": quota, "contends": contends} {
		for _, packed := range []bool{false, true} {
			list = append(list, sprout{"tach", map[string][]byte{".tach": tach(name+".tach", packed, fill)}, tachyonParts})
		}
	}
	for _, from := range []string{"contends.tach", "quota.tach"} {
		list = append(list, sprout{"pprof", map[string][]byte{".pb.gz": convert(from, "pprof")}, gzipped(".pb.gz")})
		list = append(list, sprout{"nytprof", map[string][]byte{".nytprof": convert(from, "nytprof")}, deflated})
		list = append(list, sprout{"nytprof", map[string][]byte{".nytprof": convert(from, "nytprof", "--uncompressed")}, plainly})
		list = append(list, sprout{"text", map[string][]byte{".jsonl": convert(from, "jsonl")}, plainly})
		list = append(list, sprout{"text", map[string][]byte{".folded": convert(from, "collapsed")}, plainly})
		list = append(list, sprout{"text", map[string][]byte{".pynytprof": convert(from, "pynytprof")}, plainly})
	}
	for _, pattern := range []string{"spx/testdata/*.json", "dcpi/testdata/*.dcpi"} {
		for _, path := range testenv.Must(filepath.Glob("../../internal/formats/" + pattern)) {
			if strings.HasSuffix(path, ".flat.json") || strings.HasSuffix(path, ".spec.json") {
				continue
			}
			b := testenv.Must(os.ReadFile(path))
			if filepath.Ext(path) == ".dcpi" {
				list = append(list, sprout{"spx+dcpi", map[string][]byte{".dcpi": b}, plainly})
				continue
			}
			events := testenv.Must(os.ReadFile(strings.TrimSuffix(path, ".json") + ".txt.gz"))
			list = append(list, sprout{"spx+dcpi", map[string][]byte{".json": b, ".txt.gz": events}, gzipped(".txt.gz")})
		}
	}
	// An unfinished file with its journal.
	path := filepath.Join(dir, "unfinished.tach")
	w := testenv.Must(writer.Create(path, writer.Options{Start: fixtureStart, Interval: 1000}))
	must(w.Provisional(tachyon.KindSession, tachyon.Session{Program: "app", Source: "native"}))
	f := &fixture{w: w}
	hostileTach["locks"](f)
	must(w.WriteRecords(&f.records))
	unfinished := map[string][]byte{".tach": testenv.Must(os.ReadFile(path)), ".tach.journal": testenv.Must(os.ReadFile(path + ".journal"))}
	must(w.Close())
	return append(list, sprout{"unfinished", unfinished, plainly})
}

func convertTo(from, to, format string, args ...string) {
	if run(append([]string{"convert", from, "-o", to, "--to", format}, args...), nil, io.Discard, os.Stderr) != 0 {
		panic("convert " + from)
	}
}

// TestMutants: no command panics, hangs, takes much memory or prints an escape because of a file that is changed anywhere, also
// behind its checksums. At night there are 10,000 files of each format.
func TestMutants(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	byFormat := map[string][]sprout{}
	for _, s := range sprouts(t) {
		byFormat[s.name] = append(byFormat[s.name], s)
	}
	const batch = 50 // files of one process, which keeps some memory of each
	number := testenv.Times(2, 10_000)
	if text := os.Getenv("GOTACH_MUTANTS"); text != "" {
		testenv.Must(fmt.Sscan(text, &number))
	}
	for format, list := range byFormat {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			for from := 0; from < number; from += batch {
				dir, paths := t.TempDir(), []string(nil)
				for seed := from; seed < min(number, from+batch); seed++ {
					paths = append(paths, list[seed%len(list)].write(dir, uint64(seed)))
				}
				for _, f := range findHostile(t, paths) {
					kept := testenv.Must(os.MkdirTemp("", "mutant-"))
					for _, part := range testenv.Must(filepath.Glob(strings.TrimSuffix(f.path, filepath.Ext(f.path)) + ".*")) {
						must(os.WriteFile(filepath.Join(kept, filepath.Base(part)), testenv.Must(os.ReadFile(part)), 0o600))
					}
					t.Errorf("gotach %s with %s:\n%s", f.command, kept, f.text)
				}
				must(os.RemoveAll(dir))
			}
			t.Logf("%d files", number)
		})
	}
}

// write writes a mutant to a folder and returns its path.
func (s *sprout) write(dir string, seed uint64) (path string) {
	files := map[string][]byte{}
	for end, b := range s.files {
		files[end] = b
	}
	s.change(mutant{rand.New(rand.NewPCG(seed, 26))}, files)
	for end, b := range files {
		to := filepath.Join(dir, fmt.Sprintf("%s-%d%s", s.name, seed, end))
		must(os.WriteFile(to, b, 0o600))
		if path == "" || len(to) < len(path) {
			path = to
		}
	}
	return path
}
