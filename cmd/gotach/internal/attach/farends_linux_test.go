//go:build amd64 || arm64

package attach

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// A recording from outside has the right connection, listener or pipe at each goroutine, with the name that the program's own profile has of it, and none
// that is another's.
func TestFarEnds(t *testing.T) {
	testenv.Long(t)
	x, lines, inside, end := profiled(t, "farends", "-buildmode=exe") // as TestWaits builds it
	want := map[string]string{}
	for lines.Scan() && lines.Text() != "" {
		name, end, _ := strings.Cut(lines.Text(), " ")
		want[name] = end
	}
	dir := t.TempDir()
	short := map[string]bool{"first": true, "second": true} // their connections may be closed before their names are known
	var got map[string]string
	var missing []string
	complete := func() bool { // the kernel's tables are read rarely if that takes long
		path := filepath.Join(dir, fmt.Sprint(len(testenv.Must(os.ReadDir(dir))), ".tach"))
		recordTo(t, x, path, 400, func(stop func()) { stop() })
		got = farEndsIn(t, path)
		for name, end := range got {
			testenv.Same(t, name+", from outside", end, want[name])
		}
		missing = nil
		for name := range want {
			if got[name] == "" && !short[name] {
				missing = append(missing, name)
			}
		}
		return len(missing) == 0
	}
	testenv.Await(complete)
	end()
	testenv.FailIf(t, len(want) != 11 || len(missing) > 0, "from outside:\n%q\nwant\n%q, missing %q", got, want, missing)
	want["dialedUnix"] = strings.Replace(want["listensUnix"], "listener", "connection", 1) // the kernel's tables do not have it
	for name, end := range farEndsIn(t, inside) {
		testenv.FailIf(t, end != want[name] && !short[name], "%s, from inside: %q, want %q", name, end, want[name])
	}
}

// farEndsIn returns what goroutines waited for in a profile, by their functions. If it is several things, it has them all.
func farEndsIn(t *testing.T, path string) map[string]string {
	src, objects := withObjects(t, path)
	ends := map[string]string{}
	for s := range testenv.All(t, src.Samples()) {
		stack := src.AppendStack(nil, s.Stack)
		leaf := src.Frames()[stack[0]]
		x, ok := objects[leaf.Line]
		if leaf.Func != "["+goruntime.IOWait+"]" || !ok {
			continue
		}
		for _, id := range stack {
			name, ours := strings.CutPrefix(src.Frames()[id].Func, "main.")
			switch end := x.Kind + " " + x.Name; {
			case !ours || name == "read" || name == "dials" || name == "connect" || name == "serve" || name == "farEnds" || name == "main":
			case ends[name] == "":
				ends[name] = end
			case !strings.Contains(ends[name], end):
				ends[name] += ", " + end
			}
		}
	}
	return ends
}

// Tables are read as the kernel writes them, and rows that are none, or that a path makes, give no name.
func TestReadTable(t *testing.T) {
	const tail = " 00000000:00000000 00:00000000 00000000     0        0 7 1 000000003d6ab01a 100 0 0 10 0"
	const v6 = "B80D0120000000000000000001000000:1F90"
	inet := func(at, to, state string) string { return "   0: " + at + " " + to + " " + state + tail + "\n" }
	row := func(flags, kind, state, rest string) string {
		return "000000006a8e34cf: 00000002 00000000 " + flags + " " + kind + " " + state + rest + "\n"
	}
	listening := row("00010000", "0001", "01", "     8 /a b")
	const unknown = "unknown"
	for _, tt := range []struct{ name, table, rows, want string }{
		{"a listener", "tcp", inet("0100007F:1F90", "00000000:0000", "0A"), "listens tcp 127.0.0.1:8080 < :0"},
		{"of every address", "tcp6", inet(strings.Repeat("0", 32)+":1F90", strings.Repeat("0", 32)+":0000", "0A"), "listens tcp :8080 < :0"},
		{"a connection", "tcp", inet("0100007F:1F90", "0403020A:1538", "01"), "tcp 127.0.0.1:8080 < 10.2.3.4:5432"},
		{"IPv6", "tcp6", inet(v6, v6, "01"), "tcp [2001:db8::1]:8080 < [2001:db8::1]:8080"},
		{"IPv4 as IPv6", "tcp6", inet(v6, "0000000000000000FFFF00000403020A:0050", "01"), "tcp [2001:db8::1]:8080 < 10.2.3.4:80"},
		{"a zone", "tcp6", inet(v6, "000080FE000000000000000001000000:0050", "01"), unknown},
		{"is being made", "tcp", inet("0100007F:1F90", "0403020A:1538", "02"), unknown},
		{"closed", "tcp", inet("0100007F:1F90", "00000000:0000", "07"), unknown},
		{"datagrams of all", "udp", inet("0100007F:1F90", "00000000:0000", "07"), "listens udp 127.0.0.1:8080 < :0"},
		{"datagrams", "udp", inet("0100007F:1F90", "0100007F:0001", "01"), "udp 127.0.0.1:8080 < 127.0.0.1:1"},
		{"two rows", "tcp", inet("0100007F:1F90", "0403020A:1538", "01") + inet("0100007F:1F90", "0403020A:1539", "01"), unknown},
		{"a row twice", "tcp", strings.Repeat(inet("0100007F:1F90", "0403020A:1538", "01"), 2), "tcp 127.0.0.1:8080 < 10.2.3.4:5432"},
		{"cut", "tcp", strings.TrimSuffix(inet("0100007F:1F90", "0403020A:1538", "01"), " 7 1 000000003d6ab01a 100 0 0 10 0\n"), ""},
		{"no address", "tcp", inet("0100007F", "0403020A:1538", "01"), ""},
		{"no hexadecimal", "tcp", inet("0100007G:1F90", "0403020A:1538", "01"), ""},
		{"an endless line", "tcp", strings.Repeat("x", 1<<16) + "\n" + inet("0100007F:1F90", "0403020A:1538", "01"), ""},
		{"another inode", "tcp", strings.Replace(inet("0100007F:1F90", "0403020A:1538", "01"), " 7 1 ", " 77 1 ", 1), ""},
		{"a Unix socket", "unix", row("00010000", "0001", "01", "     7 /a b"), "listens unix /a b < "},
		{"accepted", "unix", listening + row("00000000", "0001", "03", "     7 /a b"), "unix /a b < "},
		{"accepted before", "unix", row("00000000", "0001", "03", "     7 /a b") + listening, "unix /a b < "},
		{"bound and dialed", "unix", listening + row("00000000", "0001", "03", "     7 /c"), unknown},
		{"dialed", "unix", listening + row("00000000", "0001", "03", "     7"), unknown},
		{"abstract", "unix", row("00010000", "0001", "01", "     7 @a"), "listens unix @a < "},
		{"Unix datagrams", "unix", row("00000000", "0002", "01", "     7 /a"), "listens unix /a < "},
		{"a line end in the path", "unix", row("00010000", "0001", "01", "     7 /a\nb"), unknown},
		{"a row in another's path", "unix", row("00010000", "0001", "01", "     7 /a") + row("00010000", "0001", "01", "     9 /c\n"+strings.TrimSuffix(row("00010000", "0001", "01", "     7 /b"), "\n")), unknown},
		{"no number", "unix", row("00010000", "0001", "01", "     -7 /a"), ""},
		{"nothing", "unix", "\n\n \n:\n", ""},
	} {
		got := ""
		if s, ok := readTable(tt.table, strings.NewReader("  sl  title\n"+tt.rows), map[uint64]*descriptor{7: nil})[7]; ok && s.unnamed {
			got = unknown
		} else if ok {
			if got = s.network + " " + s.at + " < " + s.to; s.listens {
				got = "listens " + got
			}
		}
		testenv.FailIf(t, got != tt.want && !(tt.want == unknown && got == ""), "%s: %q, want %q", tt.name, got, tt.want)
	}
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0")) // and as this kernel writes them
	defer l.Close()
	d := describe(use{}, linkOf(t, l.(*net.TCPListener)))
	f := testenv.Closes(t, testenv.Must(os.Open("/proc/self/net/tcp")))
	s := readTable("tcp", f, map[uint64]*descriptor{d.inode: nil})[d.inode]
	testenv.FailIf(t, !s.listens || s.at != l.Addr().String(), "inode %d: %+v, want %s", d.inode, s, l.Addr())
}

// linkOf returns the link of a socket's descriptor.
func linkOf(t *testing.T, s syscall.Conn) (link string) {
	testenv.OK(t, testenv.Must(s.SyscallConn()).Control(func(fd uintptr) { link = testenv.Must(os.Readlink(fmt.Sprint("/proc/self/fd/", fd))) }))
	return link
}

// A connection that was dialed from a port on which the program has listened before is not one that it accepted there.
func TestListenedBefore(t *testing.T) {
	server := testenv.Closes(t, testenv.Must(net.Listen("tcp", "127.0.0.1:0")))
	for _, address := range []string{"127.0.0.1:0", "[::]:0"} { // the latter is in another table than the connection
		r := &recorder{Process: &Process{PID: os.Getpid(), ends: &farEnds{pending: map[uint64]*descriptor{}}}}
		name := func(s syscall.Conn) string {
			d := describe(use{}, linkOf(t, s))
			r.wants(d)
			r.now = r.ends.next
			r.nameSockets()
			return d.kind + " " + d.name
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			testenv.Skip(t, err.Error())
		}
		port := l.Addr().(*net.TCPAddr).Port
		testenv.Has(t, address, name(l.(*net.TCPListener)), "listener tcp ")
		accepts := testenv.Must(net.Dial("tcp", fmt.Sprint("127.0.0.1:", port)))
		accepted := testenv.Must(l.Accept())
		testenv.Same(t, address, name(accepted.(*net.TCPConn)), fmt.Sprintf("connection tcp :%d from 127.0.0.1", port))
		testenv.OK(t, accepted.(*net.TCPConn).SetLinger(0)) // so that the port is free at once
		testenv.OK(t, errors.Join(accepted.Close(), accepts.Close(), l.Close()))
		dialed, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}}).Dial("tcp", server.Addr().String())
		testenv.OK(t, err)
		testenv.Same(t, address, name(dialed.(*net.TCPConn)), "connection tcp "+server.Addr().String())
		dialed.Close()
	}
}

// A recording from outside and the program's own profile of the same time have the same build ID, and the same locks, channels and groups in the same order, with
// the same names.
func TestWaits(t *testing.T) {
	testenv.Long(t)
	for _, mode := range []string{"-buildmode=exe", "-buildmode=pie"}[:testenv.Times(1, 2)] { // TestGoroutines reads both by day
		x, out, inside, end := profiled(t, "waits", mode)
		outside := filepath.Join(t.TempDir(), "outside.tach")
		out.Scan()
		recordTo(t, x, outside, 1000, func(stop func()) { stop() })
		end()
		got, want := objectsIn(t, outside), objectsIn(t, inside)
		testenv.FailIf(t, !slices.Equal(got, want) || len(want) != 10 || want[0] == "", "%s, from outside:\n%s\nfrom inside:\n%s", mode, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// profiled starts a program that waits for some things and profiles itself to the file inside until end is called. out has the lines that it prints.
func profiled(t *testing.T, what string, flags ...string) (x *target, out *bufio.Scanner, inside string, end func()) {
	notEmulated(t)
	dir := t.TempDir()
	program, inside := filepath.Join(dir, "profiled"), filepath.Join(dir, "inside.tach")
	testenv.OK(t, testenv.Build(program, "./testdata/profiled", nil, flags...))
	cmd := exec.Command(program, what, inside)
	cmd.Stderr = os.Stderr
	in, lines := testenv.Must(cmd.StdinPipe()), testenv.Must(cmd.StdoutPipe())
	testenv.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &target{pid: cmd.Process.Pid}, bufio.NewScanner(lines), inside, func() {
		testenv.OK(t, in.Close())
		testenv.OK(t, cmd.Wait())
	}
}

// objectsIn returns the program's build ID, and what its goroutines waited for in a profile, the most waited time first.
func objectsIn(t *testing.T, path string) (list []string) {
	src, _ := withObjects(t, path)
	list = []string{src.Metadata().Session.BuildID}
	for g := range testenv.All(t, testenv.Closes(t, testenv.Must(reader.Open(path))).Goroutines()) {
		testenv.FailIf(t, strings.Contains(g.CreatedBy, "internal/own."), "%s: one of the session's own goroutines: %+v", path, g)
	}
	for _, l := range testenv.Must(locks.Find(analyze.NewSamples(path, src), locks.Options{})).Locks {
		at := strings.TrimPrefix(l.Sites[0].Func, "main.")
		if at == "condition" && l.Kind != "sync.Cond" {
			continue // when they begin, one may wait for the Mutex of another that lost its core
		}
		if l.Object != 0 && slices.Contains([]string{"globally", "(*account).pay", "readLock", "condition", "group", "feed", "choose", "receive", "send"}, at) {
			name, _, _ := strings.Cut(l.Name, " of ") // the numbers of a select's channels differ
			if key := l.Kind + " " + name + " in " + at; !slices.Contains(list, key) {
				list = append(list, key)
			}
		}
	}
	return list
}
