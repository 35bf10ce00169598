package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/cmd/gotach/internal/top"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"

	tea "charm.land/bubbletea/v2"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// The limits of the commands that read what strangers wrote.
const (
	hostileMemory  = 1 << 29 // bytes of address space, besides what the runtime has reserved when the program starts
	hostileTimeout = 20 * time.Second
)

func init() { programs["hostile"] = hostile }

// hostile is a program that runs all reading commands on the files whose paths are the lines of its input. It prints each
// command before it begins. It has little memory, and a command that takes too long ends it with the stacks of all goroutines.
func hostile() {
	var statm, pages uint64
	testenv.Must(fmt.Sscan(string(testenv.Must(os.ReadFile("/proc/self/statm"))), &statm))
	pages = statm * uint64(os.Getpagesize())
	must(unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: pages + hostileMemory, Max: pages + hostileMemory}))
	debug.SetTraceback("all")
	debug.SetGCPercent(testenv.Times(400, 100)) // by day a command that keeps much fails earlier
	tmp := testenv.Must(os.MkdirTemp("", "hostile"))
	defer os.RemoveAll(tmp)
	lines := bufio.NewScanner(os.Stdin)
	for file := 0; lines.Scan(); file++ {
		for i, c := range readingCommands(lines.Text(), tmp) {
			if testenv.Times((file+i)%c.every, 0) != 0 {
				continue
			}
			fmt.Printf("%s\t%s\n", lines.Text(), c.name)
			late := time.AfterFunc(testenv.Times(3*hostileTimeout, hostileTimeout), func() { panic("it takes too long") })
			out := c.run()
			late.Stop()
			// Text of a file may not reach the terminal as it is.
			if i := strings.IndexFunc(out, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0 }); i >= 0 && c.text {
				panic(fmt.Sprintf("an escape: %.200q", out[max(0, i-50):]))
			}
		}
	}
}

// A readingCommand is a command with its arguments.
type readingCommand struct {
	name string
	text bool // it prints to the terminal
	// every says that by day it has every so many-th file: 16 if another command reads a file in nearly the same way.
	every int
	run   func() string // returns what it prints
}

// readingCommands returns all commands that read a file. They write to a folder.
func readingCommands(path, tmp string) (list []readingCommand) {
	command := func(text bool, args ...string) {
		every := 4
		switch line := strings.Join(args, " "); {
		case args[0] == "convert", args[0] == "html", strings.HasPrefix(args[1], "--") && args[1] != "--func", strings.Count(line, path) > 1:
			every = 16
		case args[0] == "verify", args[0] == "report", args[0] == "dump":
			every = 1
		}
		list = append(list, readingCommand{strings.Join(args, " "), text, every, func() string {
			var out bytes.Buffer
			run(args, strings.NewReader(""), &out, &out)
			return out.String()
		}})
	}
	for _, args := range []string{
		"verify", "info", "info --json", "report", "report --json --by goroutine --idle", "report --tree", "report --blocked", "report --by object",
		"report --weight latency", "report --weight cpu --by line", "report --since 1ms --until -1ms", "report --by label:a",
		"leaks", "leaks --json", "locks", "locks --json", "waits", "waits --json", "requests --func .", "requests --label a --json",
	} {
		command(true, append(strings.Fields(args), path)...)
	}
	command(true, "report", path, path)
	command(true, "diff", path, path)
	command(true, "diff", "--per", "share", "--json", path, path)
	command(false, "dump", path)
	command(false, "html", path, "-o", filepath.Join(tmp, "x.html"))
	command(false, "html", path, path, "-o", filepath.Join(tmp, "x.html"))
	for _, f := range formats.All() {
		if f.CanWrite() {
			out := filepath.Join(tmp, "x."+f.Name)
			command(false, "convert", path, "-o", out, "--to", f.Name)
		}
	}
	command(false, "convert", path, "-o", filepath.Join(tmp, "x.pgo"), "--slowest", "1%", "--func", ".")
	list = append(list, readingCommand{"view", false, 16, func() string { viewOnce(path); return "" }},
		readingCommand{"top", false, 4, func() string { topOnce(path); return "" }},
		readingCommand{"recover", true, 4, func() string {
			// recover changes the file.
			x, out := filepath.Join(tmp, "x.tach"), bytes.Buffer{}
			_ = os.Remove(x + ".journal")
			for _, end := range []string{"", ".journal"} {
				if b, err := os.ReadFile(path + end); err == nil {
					must(os.WriteFile(x+end, b, 0o600))
				}
			}
			run([]string{"recover", x}, strings.NewReader(""), &out, &out)
			return out.String()
		}})
	return list
}

// viewOnce gets all that the page of gotach view gets of a file.
func viewOnce(path string) {
	v := &viewed{sides: [][]string{{path}}, warn: func(error) {}}
	if v.check() != nil {
		return
	}
	s := page.NewServer(context.Background(), page.ServerOptions{Options: page.Options{MaxSize: 15_000_000}, Title: v.title(), Open: v.open, Version: v.version})
	defer s.Close()
	get := func(address string) []byte {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, address, nil))
		return w.Body.Bytes()
	}
	status := func(query string) *page.Head {
		var x page.Status
		testenv.Await(func() bool {
			must(json.Unmarshal(get("/data/status?"+query), &x))
			return x.Head != nil || x.Error != ""
		})
		return x.Head
	}
	h := status("")
	for _, piece := range []string{"stacks", "goroutines", "time", "overview"} {
		get("/data/" + piece + "?generation=1")
	}
	if h != nil && len(h.Sides) > 0 {
		if from := h.Sides[0].StartUS; from < 1<<52 {
			status(fmt.Sprintf("from=%d&to=%d", from+1, from+1_000_000))
		}
	}
}

// topOnce shows all screens of gotach top of a file.
func topOnce(path string) {
	w, err := top.File(path)
	if err != nil {
		return
	}
	defer w.Close()
	m := newTopModel(context.Background(), w, 10*time.Second, false, true)
	m.after = func(time.Duration, func(time.Time) tea.Msg) tea.Cmd { return nil }
	s := &topScreen{nil, m}
	s.size(120, 50)
	s.do(m.Init())
	s.press("l", "0", "1", "2", "3", "4", "c", "i", "W", "W", "W", "left", "left", "0", "end")
}

// A finding is a command that did not end well, with the end of what it printed.
type finding struct{ path, command, text string }

// findHostile runs all reading commands on files.
func findHostile(t *testing.T, paths []string) (list []finding) {
	t.Helper()
	for len(paths) > 0 {
		cmd := testCommand(t, "hostile")
		cmd.Stdin = strings.NewReader(strings.Join(paths, "\n"))
		cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir(), "MALLOC_ARENA_MAX=1") // else C's malloc reserves 64 MB for each thread: there are more at load
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out := testenv.Must(cmd.StdoutPipe())
		must(cmd.Start())
		last := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			last = lines.Text()
		}
		if err := cmd.Wait(); err == nil {
			return list
		} else if last == "" {
			t.Fatalf("%v\n%s", err, &errs)
		}
		path, command, _ := strings.Cut(last, "\t")
		text := errs.String()
		list = append(list, finding{path, command, text[:min(len(text), 3000)]})
		paths = paths[slices.Index(paths, path)+1:]
	}
	return list
}

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
