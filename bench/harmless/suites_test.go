//go:build linux && (amd64 || arm64) && peers

package harmless

import (
	"os"
	"regexp"
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
