package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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
		switch m.IntN(8) {
		case 0:
			b[at] ^= byte(1 + m.IntN(255))
		case 1:
			if m.IntN(4) == 0 {
				b = b[:at]
			}
		case 2:
			b = slices.Delete(b, at, at+size)
		case 3:
			b = slices.Insert(b, at, b[at:at+size]...)
		case 4:
			from := m.IntN(len(b) - size + 1)
			copy(b[at:], b[from:from+size])
		case 5: // a varint
			_, k := binary.Uvarint(b[at:])
			b = slices.Replace(b, at, at+max(0, k), binary.AppendUvarint(nil, n)...)
		case 6: // a fixed number
			copy(b[at:], binary.LittleEndian.AppendUint64(nil, n)[:4<<m.IntN(2)])
		case 7: // a decimal number, where there is one
			digits := len(b[at:]) - len(bytes.TrimLeft(b[at:], "0123456789"))
			if digits > 0 {
				b = slices.Replace(b, at, at+digits, fmt.Appendf(nil, "%d", n)...)
			}
		}
	}
	return b
}

// A sprout is a file that is changed, and how.
type sprout struct {
	files  map[string][]byte // by the end of the name
	change func(m mutant, files map[string][]byte)
}

// plainly changes one of the files.
func plainly(m mutant, files map[string][]byte) {
	name := slices.Sorted(maps.Keys(files))[m.IntN(len(files))]
	files[name] = m.change(files[name])
}

// tachyonParts changes the samples, or what is behind them, and keeps the offsets right.
func tachyonParts(m mutant, files map[string][]byte) {
	b := files[""]
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
	files[""] = out
}

// sprouts returns the files that are changed. Those of other formats have fuzz targets, and are the same to commands when they are read.
func sprouts(t *testing.T) (list []sprout) {
	t.Helper()
	dir := t.TempDir()
	for name, fill := range map[string]func(*fixture, []string){"quota": quota, "contends": contends} {
		path := filepath.Join(dir, name+".tach")
		for range 2 { // not compressed at first
			if writeFixture(path, fill); len(list)%2 == 1 {
				ok(t, "convert", path, "-o", path)
			}
			list = append(list, sprout{map[string][]byte{"": testenv.Must(os.ReadFile(path))}, tachyonParts})
		}
	}
	// An unfinished file with its journal.
	path := filepath.Join(dir, "unfinished.tach")
	w := testenv.Must(writer.Create(path, writer.Options{Start: fixtureStart, Interval: 1000}))
	must(w.Provisional(tachyon.KindSession, tachyon.Session{Program: "app", Source: "native"}))
	f := &fixture{w: w}
	hostileTach["locks"](f)
	must(w.WriteRecords(&f.records))
	unfinished := map[string][]byte{"": testenv.Must(os.ReadFile(path)), ".journal": testenv.Must(os.ReadFile(path + ".journal"))}
	must(w.Close())
	return append(list, sprout{unfinished, plainly})
}

// TestMutants: no command panics, hangs, takes much memory or prints an escape because of a file that is changed anywhere, also
// behind its checksums. At night there are 20,000 files.
func TestMutants(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	list := sprouts(t)
	const batch = 50 // files of one process, which keeps some memory of each
	number := testenv.Times(len(list), 20_000)
	for from := 0; from < number; from += batch {
		dir, paths := t.TempDir(), []string(nil)
		for seed := from; seed < min(number, from+batch); seed++ {
			paths = append(paths, list[seed%len(list)].write(dir, uint64(seed)))
		}
		for _, f := range findHostile(t, paths) {
			kept := testenv.Must(os.MkdirTemp("", "mutant-"))
			for _, part := range testenv.Must(filepath.Glob(f.path + "*")) {
				must(os.WriteFile(filepath.Join(kept, filepath.Base(part)), testenv.Must(os.ReadFile(part)), 0o600))
			}
			t.Errorf("gotach %s with %s:\n%s", f.command, kept, f.text)
		}
		must(os.RemoveAll(dir))
	}
}

// write writes a mutant to a folder and returns its path.
func (s *sprout) write(dir string, seed uint64) (path string) {
	files, change := maps.Clone(s.files), s.change
	if seed%4 == 3 {
		change = plainly
	}
	change(mutant{rand.New(rand.NewPCG(seed, 26))}, files)
	path = filepath.Join(dir, fmt.Sprint(seed, ".tach"))
	for end, b := range files {
		must(os.WriteFile(path+end, b, 0o600))
	}
	return path
}
