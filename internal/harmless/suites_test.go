//go:build linux && (amd64 || arm64)

package harmless

import "time"

// A suite is a part of somebody's tests.
type suite struct {
	name    string
	module  string   // path@version, or a directory here; "" for the standard library
	pkgs    []string // relative to the module ("./..." patterns too), import paths in the standard library
	run     string   // -run; "" for all
	skip    string   // -skip: tests that do not give the same verdict each time without the profiler either
	hook    string   // statements to run before the tests
	imports []string // of hook
	timeout time.Duration
	when    int
}

// The values of suite.when: in which of the runs of doc.go a suite takes part.
const (
	always = iota
	quick
	all
)

// suites are pinned to versions that Go 1.25 builds.
var suites = []suite{
	{
		name:    "std",
		pkgs:    []string{"os/signal"}, // little is built on it: most others are built anew with all that is
		timeout: 2 * time.Minute,
		when:    always,
	},
	{
		name: "std-more",
		pkgs: []string{"context", "sync", "bufio", "time", "os", "os/exec", "net", "net/http", "net/http/httptest", "net/rpc", "io", "internal/poll", "encoding/json", "encoding/gob", "compress/flate", "go/parser", "go/types", "database/sql", "log/slog", "runtime/debug", "runtime/metrics", "runtime/trace", "strings", "sort", "math/big", "text/template", "crypto/tls", "archive/zip"},
		// Of os: it stops listening right after a SIGINT, as package auto says. Of time: it
		// counts the allocations of the whole program and wants none.
		skip:    "^(TestProcessLiteral|TestUnmarshalTextAllocations)$",
		timeout: 5 * time.Minute,
		when:    all,
	},
	{
		name: "std-runtime", // the scheduler, the collector, signals and stacks themselves
		pkgs: []string{"runtime"},
		// It runs itself under strace and counts the calls of clock_gettime, of which it
		// wants fewer than 100. The profiler makes as many to measure the cycle counter,
		// and then one a tick while it finds out that it cannot use the native source:
		// under strace a goroutine's labels take longer to read than a walk may last.
		skip:    "^TestUsingVDSO$",
		timeout: 10 * time.Minute,
		when:    all,
	},
	{name: "std-pprof", pkgs: []string{"runtime/pprof"}, timeout: 10 * time.Minute, when: all},
	{
		name:   "yamux",
		module: "github.com/hashicorp/yamux@v0.1.2",
		pkgs:   []string{"."},
		// The one races for the closing of its connection, the other gives 1,000 writes
		// a fixed time; each failed in one of three runs without the profiler.
		skip:    "^(TestHalfCloseSessionShutdown|TestManyStreams_PingPong)$",
		timeout: 3 * time.Minute,
		when:    all,
	},
	{
		name:    "websocket",
		module:  "github.com/gorilla/websocket@v1.5.3",
		pkgs:    []string{"."},
		skip:    "^TestPreparedMessage$", // needs rand.Seed, which does nothing since Go 1.24
		timeout: 2 * time.Minute,
		when:    quick,
	},
	{name: "zap", module: "go.uber.org/zap@v1.28.0", pkgs: []string{".", "./zapcore"}, timeout: 2 * time.Minute, when: quick},
	{name: "x-net", module: "golang.org/x/net@v0.55.0", pkgs: []string{"./http2/h2c", "./netutil", "./websocket", "./nettest"}, timeout: 2 * time.Minute, when: quick},
	{name: "compress", module: "github.com/klauspost/compress@v1.20.3", pkgs: []string{"./zstd", "./s2", "./flate", "./gzip", "./huff0"}, timeout: 8 * time.Minute, when: all},
	{name: "bbolt", module: "go.etcd.io/bbolt@v1.5.0", pkgs: []string{".", "./internal/..."}, timeout: 8 * time.Minute, when: all},
	{name: "badger", module: "github.com/dgraph-io/badger/v4@v4.9.6", pkgs: []string{"./skl", "./table", "./y", "./trie"}, timeout: 5 * time.Minute, when: all},
	{
		name:    "pebble",
		module:  "github.com/cockroachdb/pebble@v1.1.5",
		pkgs:    []string{"./record", "./internal/arenaskl", "./internal/cache", "./vfs", "./sstable", "."},
		skip:    "^TestLittleEndianGetPut$", // names a part after a random number
		timeout: 10 * time.Minute,
		when:    all,
	},
	{
		name:   "raft",
		module: "github.com/hashicorp/raft@v1.8.0",
		pkgs:   []string{"."},
		// Of the tests of whole clusters only a few: they hold elections against a
		// clock of 50 ms, and on a loaded machine three of them failed in the first
		// run without the profiler.
		run:     "^Test(Inm|File|Net|TCP|Commit|Config|Future|Log|Obs|Peer|Discard|Raft_(StartStop|AfterShutdown|SingleNode|TripleNode|ApplyNonLeader|ApplyConcurrent|Barrier))",
		timeout: 4 * time.Minute,
		when:    all,
	},
	{name: "http2", module: "golang.org/x/net@v0.55.0", pkgs: []string{"./http2", "./http2/hpack"}, timeout: 5 * time.Minute, when: all},
	{
		name:   "grpc",
		module: "google.golang.org/grpc@v1.81.1",
		pkgs:   []string{".", "./internal/transport", "./internal/grpcsync", "./stats", "./keepalive", "./health"},
		// Its checker of leaks goes through all goroutines of the process after each
		// test, so it has to be told of the profiler's, as of any other library's.
		hook:    `leakcheck.RegisterIgnoreGoroutine("github.com/gotach/profiler")`,
		imports: []string{"google.golang.org/grpc/internal/leakcheck"},
		timeout: 8 * time.Minute,
		when:    all,
	},
	{
		name:   "nats",
		module: "github.com/nats-io/nats-server/v2@v2.12.4",
		pkgs:   []string{"./server"},
		run:    "^Test(Client|Sublist|Ping|Parse|Subject|RingBuffer|Split|Util|IPQueue|Gateway(Basic|Send|NoReconnect)|Route(Config|Send|Pool)|Closed|Account)",
		// They send before the other server is known to listen. On a loaded machine
		// the first failed in 6 runs of 24 without the profiler, the second in 1, the
		// third in 5 of 109, and with it in 4 of 110.
		skip:    "^(TestAccountTrackLatencyRemoteLeaks|TestGatewaySendsToNonLocalSubs|TestGatewaySendReplyAcrossGateways)$",
		timeout: 6 * time.Minute,
		when:    all,
	},
	{name: "xsync", module: "github.com/puzpuzpuz/xsync/v4@v4.5.0", pkgs: []string{"."}, timeout: 5 * time.Minute, when: all},
	{name: "fasthttp", module: "github.com/valyala/fasthttp@v1.70.0", pkgs: []string{".", "./fasthttputil", "./reuseport"}, timeout: 5 * time.Minute, when: all},
}
