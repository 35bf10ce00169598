//go:build linux && (amd64 || arm64) && peers

package harmless

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// A suite is a part of the tests of a module or of the standard library. Module and packages are in docs/harm.md.
type suite struct {
	name    string
	module  string   // path@version, or a directory in this one; "" for the standard library
	pkgs    []string // relative to the module, also "./..." patterns; import paths for the standard library
	run     string   // -run; "" for all
	skip    string   // -skip: tests whose verdict varies without the profiler too, or that cannot pass with it
	hook    string   // statements to run before the tests
	imports []string // for hook
	timeout time.Duration
	night   bool // only the step night runs it
}

// read finds the suite in the table of docs/harm.md.
func (s *suite) read(t *testing.T) {
	page := testenv.Must(os.ReadFile(harmPage))
	m := regexp.MustCompile(`(?m)^\| ` + s.name + ` \| (?:the standard library|` + "`(.*)`" + `) \| (.*) \| (all|most|some) \|$`).FindSubmatch(page)
	testenv.StopIf(t, m == nil || (string(m[3]) == "some") != (s.run != "") || (string(m[3]) == "all") != (s.run+s.skip == ""), "%s: its row is %q", s.name, m)
	s.module, s.pkgs = string(m[1]), strings.Split(strings.ReplaceAll(string(m[2]), "`", ""), ", ")
}

// suites are pinned to versions that Go 1.25 builds.
var suites = []suite{
	// Few packages import it, so few have to be built again
	{name: "std", timeout: 2 * time.Minute},
	// It allows no allocations in the whole program.
	{name: "std-more", skip: "^TestUnmarshalTextAllocations$", timeout: 5 * time.Minute, night: true},
	// It tests scheduler, collector, signals and stacks.
	// It runs itself under strace and allows fewer than 100 calls of clock_gettime. The
	// profiler makes as many to measure the cycle counter. Then it makes one per tick until
	// it finds that it cannot use the native source: under strace, reading a goroutine's
	// labels takes longer than a walk may take.
	{name: "std-runtime", skip: "^TestUsingVDSO$", timeout: 10 * time.Minute, night: true},
	{name: "std-pprof", timeout: 10 * time.Minute, night: true},
	// The first has a race for closing its connection, the second gives 1,000 writes a fixed
	// time. Each failed in one of three runs without the profiler.
	{name: "yamux", skip: "^(TestHalfCloseSessionShutdown|TestManyStreams_PingPong)$", timeout: 3 * time.Minute, night: true},
	// It needs rand.Seed, which does nothing since Go 1.24
	{name: "websocket", skip: "^TestPreparedMessage$", timeout: 2 * time.Minute},
	{name: "zap", timeout: 2 * time.Minute, night: true},
	{name: "x-net", timeout: 2 * time.Minute, night: true},
	{name: "compress", timeout: 8 * time.Minute, night: true},
	{name: "bbolt", timeout: 8 * time.Minute, night: true},
	{name: "badger", timeout: 5 * time.Minute, night: true},
	// A subtest has a random number as its name
	{name: "pebble", skip: "^TestLittleEndianGetPut$", timeout: 10 * time.Minute, night: true},
	// Only a few tests of whole clusters: they hold elections with a timeout of 50 ms. On a
	// busy machine three of them failed in the first run without the profiler.
	{name: "raft", timeout: 4 * time.Minute, night: true,
		run: "^Test(Inm|File|Net|TCP|Commit|Config|Future|Log|Obs|Peer|Discard|Raft_(StartStop|AfterShutdown|SingleNode|TripleNode|ApplyNonLeader|ApplyConcurrent|Barrier))"},
	{name: "http2", timeout: 5 * time.Minute, night: true},
	// Its leak checker looks at all goroutines of the process after each test. So the hook
	// registers the profiler's goroutines, as for any other library.
	{name: "grpc", timeout: 8 * time.Minute, night: true,
		hook: `leakcheck.RegisterIgnoreGoroutine("github.com/gotach/profiler")`, imports: []string{"google.golang.org/grpc/internal/leakcheck"}},
	// They send without waiting until the other server listens. On a busy machine, without the
	// profiler, the first failed in 6 of 24 runs, the second in 1, the third in 5 of 109; with
	// the profiler the third failed in 4 of 110.
	{name: "nats", timeout: 6 * time.Minute, night: true,
		run:  "^Test(Client|Sublist|Ping|Parse|Subject|RingBuffer|Split|Util|IPQueue|Gateway(Basic|Send|NoReconnect)|Route(Config|Send|Pool)|Closed|Account)",
		skip: "^(TestAccountTrackLatencyRemoteLeaks|TestGatewaySendsToNonLocalSubs|TestGatewaySendReplyAcrossGateways)$"},
	// They give what they measure a fixed time; on a loaded machine one of them failed
	// in one of three runs without the profiler.
	{name: "nats-parts", skip: "^TestNoRace", timeout: 3 * time.Minute, night: true},
	// What is left out beside clusters: file stores, JWT and MQTT take more than six
	// minutes a run each.
	// On a loaded machine it failed in 4 runs of 50 without the profiler, in none of 50 with it.
	{name: "nats-more", run: "^Test(Mem|WS|Monitor|Server|ConfigCheck|Options)", skip: "^TestServerEventsHealthZClustered_NoReplicas$", timeout: 4 * time.Minute, night: true},
	{name: "xsync", timeout: 5 * time.Minute, night: true},
	{name: "fasthttp", timeout: 5 * time.Minute, night: true},
}

// waitModes are the columns of the table of waits.
var waitModes = []struct {
	name string
	env  []string
}{
	{"without profiler", nil},
	{"native, 1 kHz", []string{"PROFILE_SOURCE=native", "PROFILE_RATE=1000"}},
	{"native, 10 kHz", []string{"PROFILE_SOURCE=native", "PROFILE_RATE=10000"}},
	{"portable, 10 kHz", []string{"PROFILE_SOURCE=portable", "PROFILE_RATE=10000"}},
}

// A waitRow is a row of a table of waits: calls that a signal may end.
type waitRow struct {
	what   string
	names  []string // of the calls
	own    bool     // on a thread that C has created
	never  bool     // no signal ends the call
	divide int      // so many fewer calls
}

// restless are the calls of C that Linux ends with EINTR after a signal handler has run, even if the handler asks for a restart.
var restless = []string{"nanosleep", "clock_nanosleep", "usleep", "poll", "select", "sem_timedwait"}

// TestPeerHarmWaits counts waits of 1 ms in C that a signal ended early. Some calls are never interrupted, and none is on a
// thread that C has created. The other figures differ from run to run: with -update the test writes them to docs/harm.md, and
// without it compares only what they are of.
func TestPeerHarmWaits(t *testing.T) {
	testenv.Command(t, "gcc", "apt-get install gcc")
	const cond = "pthread_cond_timedwait"
	var rows []waitRow
	for _, name := range append(slices.Clone(restless), cond) {
		rows = append(rows, waitRow{"`" + name + "`", []string{name}, false, name == cond, 1})
	}
	rows = append(rows, waitRow{"all of them, on a thread that C has created", append(slices.Clone(restless), cond), true, true, 1})
	waitTable(t, "figures", fmt.Sprintf("\nThis table has the number of waits that ended with EINTR, of 1,000 waits of 1 ms with 100 µs of Go code before each. The\n"+
		"budget was 100 %%, so the source took as many ticks as it could. It was measured on %s.\n\n| wait |", today()), buildCase(t, true), "waits", rows)
}

// TestPeerHarmInterrupted counts system calls of programs in Go that a signal ended with EINTR or EAGAIN, also with SA_RESTART. Where the
// caller tries again there must be none; with -update the test writes the figures, as TestPeerHarmWaits.
func TestPeerHarmInterrupted(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "only root can load BPF programs and mount file systems")
	}
	waitTable(t, "more figures", fmt.Sprintf("\nThis table has system calls that programs in Go make, of 1,000 calls with 100 µs of Go code before each. It was measured\n"+
		"on %s.\n\n| call |", today()), buildCase(t, false), "own counts", []waitRow{
		{"`bpf(BPF_PROG_LOAD)` of a small program", []string{"bpf"}, false, false, 1},
		{"`bpf(BPF_PROG_LOAD)`, some 30 ms", []string{"long bpf"}, false, false, 10},
		{"the same, with up to five attempts", []string{"bpf, five attempts"}, false, true, 10},
		{"`syscall.Open` in a FUSE file system, 1 ms", []string{"FUSE open"}, false, false, 1},
		{"`os.Open` there", []string{"FUSE os.Open"}, false, true, 1},
		{"`io_uring_enter`, 1 ms", []string{"io_uring"}, false, false, 1},
		{"`io_uring_enter` with `syscall.RawSyscall6`, 1 ms", []string{"raw io_uring"}, false, false, 1},
		{"`nanosleep` with `syscall.RawSyscall`, 1 ms", []string{"raw nanosleep"}, false, false, 1},
	})
}

// today says when and where a table is measured.
func today() string {
	return fmt.Sprintf("%s on %d cores", time.Now().Format("2 January 2006"), runtime.NumCPU())
}

// waitTable measures a table and compares a part of the page with it, but for its figures, or writes it with -update.
func waitTable(t *testing.T, section, intro, program, what string, rows []waitRow) {
	t.Helper()
	n := 100
	if *update {
		n = 1000
	}
	var b strings.Builder
	b.WriteString(intro)
	for _, m := range waitModes {
		b.WriteString(" " + m.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(waitModes)) + "\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, m := range waitModes {
			got, most := 0, n
			for _, name := range row.names {
				args := []string{what, name, strconv.Itoa(n / row.divide / len(row.names))}
				if row.own {
					args = append(args, "own")
				}
				got += row.divide * interrupted(t, program, m.env, args...)
			}
			if row.never {
				most = 0
			} else if m.env == nil && what == "waits" {
				most = n / 20 // the runtime's own preemption interrupts one now and then
			}
			testenv.FailIf(t, got > most, "%s, %s: %d of %d interrupted, want at most %d", row.what, m.name, got, n, most)
			fmt.Fprintf(&b, " %d |", got)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	if *update {
		testenv.Marked(t, harmPage, section, b.String(), true)
		return
	}
	figures := regexp.MustCompile(`\b\d+ \||on \d.*`)
	testenv.Same(t, harmPage, figures.ReplaceAllString(part(t, section), "N"), figures.ReplaceAllString(b.String(), "N"))
}

// interrupted runs a program that prints how many waits a signal ended, of those that its arguments say.
func interrupted(t *testing.T, program string, env []string, args ...string) int {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = environ()
	if env != nil {
		cmd.Env = append(append(cmd.Env, "PROFILE_OUT="+t.TempDir()+"/x.tach", "PROFILE_BUDGET=100"), env...)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	got, bad := strconv.Atoi(strings.TrimSpace(string(out)))
	testenv.StopIf(t, err != nil || bad != nil, "%s: %v, it prints %q", cmd, err, out)
	return got
}

// delve is a version that knows all Go versions that the profiler supports.
const delve = "github.com/go-delve/delve/cmd/dlv@v1.27.2"

// TestPeerDelve attaches Delve to a program in a session, stops at a breakpoint twice, and detaches. The program must go on and
// end as without a session.
func TestPeerDelve(t *testing.T) {
	testenv.Night(t, "Delve is large: it is built for a minute")
	bin := t.TempDir()
	t.Setenv("GOBIN", bin)
	gocmd(t, toolchain(t, t.TempDir()), bin, "install", delve)
	program := buildCase(t, false, "-ldflags=") // with DWARF
	script := write(t, filepath.Join(bin, "script"), "break b main.hit\ncontinue\nprint n\ncontinue\ngoroutines\nstack\nclear b\n")
	for _, source := range harmSources {
		t.Run(map[bool]string{true: "none", false: source}[source == ""], func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(program, "own debugged")
			cmd.Env = append(environ(), "PROFILE_SOURCE="+source, "PROFILE_RATE=1000")
			if source != "" {
				cmd.Env = append(cmd.Env, "PROFILE_OUT="+filepath.Join(dir, "x.tach"))
			}
			cmd.Stderr = os.Stderr
			end := testenv.Must(cmd.StdinPipe())
			out := bufio.NewReader(testenv.Must(cmd.StdoutPipe()))
			testenv.OK(t, cmd.Start())
			line, _ := out.ReadString('\n')
			dlv := exec.Command(filepath.Join(bin, "dlv"), "attach", strconv.Itoa(cmd.Process.Pid), "--init", script, "--allow-non-terminal-interactive=true")
			dlv.Stdin = strings.NewReader("exit\nn\n") // do not kill the program
			text, _ := dlv.CombinedOutput()
			testenv.Same(t, "stops at the breakpoint: "+string(text), strings.Count(string(text), "[b] main.hit("), 2)
			testenv.OK(t, end.Close())
			more, _ := out.ReadString('\n')
			_ = cmd.Wait()
			testenv.Same(t, "what the program prints, and its end, after "+string(text), line+more+ending(cmd.ProcessState), "ready\ndone\nexit 7")
			if source != "" {
				testenv.Same(t, source, profile(t, filepath.Join(dir, "x.tach"), source), "profile whole")
			}
		})
	}
}

// TestPeerHarmTable runs the cells that TestHarmTable leaves out, and all cases without the profiler. With -update it runs all
// cases and writes the tables of docs/harm.md.
func TestPeerHarmTable(t *testing.T) {
	testenv.Command(t, "gcc", "apt-get install gcc")
	harmTable(t, func(s *harmSection, c *harmCase, source string) bool {
		return *update || !cellOfTest(s, c, source) && (!c.night || testenv.Times(0, 1) == 1)
	})
}
