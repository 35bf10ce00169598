//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// evil would set the title of a terminal, change colours in two ways, turn the order of letters, and begin a line that looks
// like gotach's own. It has no slash, so that it can be a file's name.
const evil = "\x1b]0;owned\x07\x1b[35m\u009b35m\u202e\x7f\r\ngotach: forged\t\xff"

// evilNames [MS] is crowded with names that have evil.
func evilNames(f *fixture, args []string) {
	f.rename = func(x tachyon.Frame) tachyon.Frame {
		if strings.HasPrefix(x.Func, "main.") {
			x.Func, x.File = x.Func+evil, strings.TrimSuffix(x.File, ".go")+evil+".go"
		}
		return x
	}
	crowded(f, args)
	f.add(700, 1, 0, wait("chan"+evil), own("app.go", "odd", 9))
	f.add(700, 1000, 0, wait("chan"+evil), own("app.go", "odd", 9))
	s := reflect.ValueOf(&f.session).Elem()
	for i := range s.NumField() {
		if x := s.Field(i); x.Kind() == reflect.String && x.String() == "" {
			x.SetString(evil)
		}
	}
	f.session.VCS = map[string]string{"vcs.revision" + evil: evil}
	for i := range f.records.Objects {
		o := &f.records.Objects[i]
		o.Symbol, o.Static = "main.mutex"+evil, o.Addr
	}
	for i := range f.records.Goroutines {
		g := &f.records.Goroutines[i]
		g.CreatedBy, g.CreatedAt = g.CreatedBy+evil, g.CreatedAt+evil
		g.Labels = []tachyon.LabelSpan{{From: 1, Labels: map[string]string{"who" + evil: evil}}}
	}
	f.goroutine(400, "main.main"+evil, "/src/"+evil).Labels = []tachyon.LabelSpan{{From: 1, Labels: map[string]string{"who": evil}}}
}

// hostileServer answers all with evil, and returns its address.
func hostileServer(t *testing.T) string {
	l := testenv.Closes(t, testenv.Must(net.Listen("tcp", "127.0.0.1:0")))
	line := strings.NewReplacer("\r", "", "\n", "").Replace(evil)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 1<<16))
				_, _ = io.WriteString(c, "HTTP/1.1 400 "+line+"\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n"+evil)
			}()
		}
	}()
	return l.Addr().String()
}

// unsafe returns the first part of a text that no terminal may get, but for the colours that paint knows.
func unsafe(text string) string {
	text = regexp.MustCompile("\x1b\\[([012]|3[1236]|1;7)m").ReplaceAllString(text, "")
	if i := strings.Index(text, "\ngotach: forged"); i >= 0 || strings.HasPrefix(text, "gotach: forged") {
		return "a forged line"
	}
	for i, r := range text {
		if _, n := utf8.DecodeRuneInString(text[i:]); r != '\n' && r != '\t' && (!unicode.IsPrint(r) || r == utf8.RuneError && n == 1) {
			return text[max(0, i-40):min(len(text), i+20)]
		}
	}
	return ""
}

// evilFiles makes files with names and content of strangers.
func evilFiles(t *testing.T) (dir, tach, empty, damaged, sums string) {
	dir = filepath.Join(t.TempDir(), "dir"+evil)
	must(os.Mkdir(dir, 0o755))
	in := func(name string) string { return filepath.Join(dir, name+evil) }
	tach, empty, damaged, sums = in("app")+".tach", in("empty"), in("damaged")+".tach", in("sums")+".dcpi"
	writeFixture(tach, evilNames, "1500")
	b := testenv.Must(os.ReadFile(tach))
	must(os.WriteFile(empty, nil, 0o600))
	must(os.WriteFile(damaged, b[:len(b)/2], 0o600))
	b = testenv.Must(os.ReadFile("../../internal/formats/dcpi/testdata/1-go-sparse.dcpi"))
	path := strings.NewReplacer("\n", "", "\r", "", "\t", "").Replace(evil)
	must(os.WriteFile(sums, bytes.Replace(b, []byte("/srv/app/server"), []byte("/srv/app/"+path), 1), 0o600))
	return dir, tach, empty, damaged, sums
}

// No command writes a character to the terminal that is not printable, whoever has chosen it.
func TestPrinted(t *testing.T) {
	testenv.Again(t)
	t.Parallel()
	dir, tach, empty, damaged, sums := evilFiles(t)
	server := hostileServer(t)
	out := filepath.Join(t.TempDir(), "out"+evil)
	commands := [][]string{
		{"info", tach, tach}, {"report", tach}, {"report", tach, "--tree"}, {"report", tach, "--callers", "odd"}, {"report", tach, "--focus", "main" + evil[:20]},
		{"report", tach, "--focus", regexp.QuoteMeta("main.odd" + evil)}, {"report", tach, "--label", "who=" + evil}, {"report", tach, "--by", "label:who" + evil},
		{"report", tach, "--by", evil}, {"report", tach, "--from", evil}, {"report", tach, "--since", evil}, {"report", tach, "--callers", evil},
		{"report", tach, damaged, empty, dir}, {"report", sums}, {"report", dir},
		{"leaks", tach}, {"locks", tach}, {"locks", tach, "--each"}, {"waits", "400", tach}, {"waits", "main.odd", tach}, {"waits", evil, tach},
		{"requests", tach}, {"requests", tach, "--func", "main.query"}, {"requests", tach, "--func", evil}, {"requests", tach, "--slowest", evil},
		{"diff", tach, tach}, {"diff", tach, damaged}, {"diff", tach, empty}, {"diff", tach, tach, "--fail-above", evil},
		{"verify", tach}, {"verify", damaged}, {"verify", empty}, {"verify", "no" + evil}, {"recover", tach}, {"recover", empty}, {"recover", damaged},
		{"html", tach, "-o", out + ".html"}, {"html", damaged, "-o", out + ".html"}, {"html", tach, "-o", filepath.Join(out, "x")}, {"view", "no" + evil}, {"view", dir + "/no"},
		{"convert", tach, "-o", out}, {"convert", tach, "-o", out + ".tach"}, {"convert", tach, "-o", "-", "--to", evil}, {"convert", sums, "-o", out + ".folded"}, {"convert", sums, tach, "-o", out + ".folded"},
		{"convert", tach, "-o", out + ".pgo"}, {"convert", tach, "--executable", evil, "-o", out + ".pgo"}, {"convert", sums, "-o", out + ".tach"}, {"convert", tach, "-o", out + ".spx", "--to", "spx"},
		{"top", evil}, {"top", "http://" + server + "/" + evil}, {"dump", sums, evil}, {"formats"}, {"formats", evil},
		{"push", dir, "--to", "otlp+http://" + server, "--once", "--tries", "1"}, {"push", dir, "--to", evil}, {"push", "no" + evil, "--to", "otlp+http://" + server, "--once"},
		{"push", dir, "--to", "otlp+http://" + server, "--resource", evil}, {"push", dir, "--to", "otlp+http://" + server, "--listen", evil}, {"push", dir, "--to", "otlp+http://" + server, "--ca", evil},
		{"test", "--diff", evil}, {"test", "-o", tach, "--diff", tach}, {"demo", "-o", evil + "/x"}, {"demo", "-d", evil},
		{evil}, {"reprot" + evil}, {"info", "--no" + evil}, {"info", "-" + evil}, {"report", tach, "--top", evil}, {"completion", evil}, {"__complete", "report", "--by", evil}, {"__complete", evil}, {"help", evil},
	}
	for _, c := range []string{"bash", "zsh", "fish", "powershell"} {
		commands = append(commands, []string{"completion", c})
	}
	for _, by := range profile.Bys {
		commands = append(commands, []string{"report", tach, "--by", string(by)})
	}
	printed := map[string]bool{}
	for _, args := range commands {
		var stdout, stderr bytes.Buffer
		run(args, nil, &stdout, &stderr)
		for what, text := range map[string]string{"stdout": stdout.String(), "stderr": stderr.String()} {
			testenv.Same(t, fmt.Sprintf("%q writes to %s", args, what), unsafe(text), "")
		}
		printed[args[0]] = printed[args[0]] || strings.Contains(stdout.String()+stderr.String(), "]0;owned")
	}
	for _, name := range []string{"info", "report", "leaks", "locks", "waits", "requests", "diff", "verify", "recover", "html", "view", "convert", "push", "test", "demo", "top"} {
		testenv.FailIf(t, !printed[name], "%s has printed no name: %v", name, slices.Sorted(maps.Keys(printed)))
	}
}

// JSON has the same text as before, with escapes, and nothing that is not printable.
func TestPrintedJSON(t *testing.T) {
	testenv.Long(t)
	_, tach, _, _, sums := evilFiles(t)
	few := filepath.Join(t.TempDir(), "few.tach")
	writeFixture(few, evilNames, "9")
	for _, args := range [][]string{{"info"}, {"report"}, {"leaks"}, {"locks"}, {"waits", "400"}, {"requests"}, {"diff", tach}, {"dump", few}, {"dump", sums}} {
		want := evil[:strings.IndexByte(evil, '\r')]
		if args[len(args)-1] == sums {
			want = "\x1b[35m" // it is read byte by byte
		}
		if args[0] != "dump" {
			args = append(args, tach, "--json")
		}
		var stdout bytes.Buffer
		run(args, nil, &stdout, io.Discard)
		testenv.Same(t, args, unsafe(stdout.String()), "")
		kept := false
		for d := json.NewDecoder(&stdout); ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			testenv.StopIf(t, err != nil, "%q: %v", args, err)
			text, _ := token.(string)
			kept = kept || strings.Contains(text, want)
		}
		testenv.FailIf(t, !kept, "%q has lost text", args)
	}
}

// The parts of a character that come one after the other are one character. Nobody else can write a colour.
func TestOutput(t *testing.T) {
	var b bytes.Buffer
	o := &output{w: &b}
	for _, c := range []byte("日\u202eä\x1b[31m") {
		testenv.Must(o.Write([]byte{c}))
	}
	testenv.Must(printf(o, "%s|%s\n", paint(true).busy("a\nb"), "c\x1b[0m\nd"))
	testenv.Same(t, "written", b.String(), "日\uFFFDä\uFFFD[31m\x1b[31ma\uFFFDb\x1b[0m|c\uFFFD[0m\uFFFDd\n")
	b.Reset()
	testenv.Must((&output{w: &b, json: true}).Write([]byte("\"\u202e\U000e0001ä\x7f\"\n")))
	testenv.Same(t, "JSON", b.String(), `"\u202e\udb40\udc01ä\u007f"`+"\n")
}

// The screen of top has no character that is not printable.
func TestTopPrinted(t *testing.T) {
	t.Parallel()
	s := newTopScreenOf(t, func(f *fixture, _ []string) { evilNames(f, []string{"1500"}) }, true, true)
	for _, size := range [][2]int{{200, 60}, {80, 24}, {30, 8}}[:testenv.Brief(1, 3)] {
		s.size(size[0], size[1])
		for _, key := range []string{"0", "1", "2", "3", "4", "?", "?", "/", evil, "enter", "esc"} {
			s.press(key)
			testenv.Same(t, fmt.Sprint(size, key), unsafe(s.m.View().Content), "")
			testenv.Same(t, fmt.Sprint(size, key), unsafe(s.text()), "")
		}
	}
	s.m.Update(polledMsg{err: os.NewSyscallError(evil, os.ErrInvalid)})
	testenv.Same(t, "a notice", unsafe(s.m.View().Content), "")
	testenv.Has(t, "a notice", s.text(), "]0;owned")
}
