//go:build linux && (amd64 || arm64)

package harmless

import "time"

// A suite is a part of the tests of a module or of the standard library.
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

// suites are pinned to versions that Go 1.25 builds.
var suites = []suite{
	{
		name:    "std",
		pkgs:    []string{"os/signal"}, // few packages import it, so few have to be built again
		timeout: 2 * time.Minute,
	},
	{
		name: "std-more",
		pkgs: []string{"context", "sync", "bufio", "time", "os", "os/exec", "net", "net/http", "net/http/httptest", "net/rpc", "io", "internal/poll", "encoding/json", "encoding/gob", "compress/flate", "go/parser", "go/types", "database/sql", "log/slog", "runtime/debug", "runtime/metrics", "runtime/trace", "strings", "sort", "math/big", "text/template", "crypto/tls", "archive/zip"},
		// It allows no allocations in the whole program.
		skip:    "^TestUnmarshalTextAllocations$",
		timeout: 5 * time.Minute,
		night:   true,
	},
	{
		name: "std-runtime", // scheduler, collector, signals and stacks
		pkgs: []string{"runtime"},
		// It runs itself under strace and allows fewer than 100 calls of clock_gettime. The
		// profiler makes as many to measure the cycle counter. Then it makes one per tick until
		// it finds that it cannot use the native source: under strace, reading a goroutine's
		// labels takes longer than a walk may take.
		skip:    "^TestUsingVDSO$",
		timeout: 10 * time.Minute,
		night:   true,
	},
	{name: "std-pprof", pkgs: []string{"runtime/pprof"}, timeout: 10 * time.Minute, night: true},
	{
		name:   "yamux",
		module: "github.com/hashicorp/yamux@v0.1.2",
		pkgs:   []string{"."},
		// The first has a race for closing its connection, the second gives 1,000 writes a fixed
		// time. Each failed in one of three runs without the profiler.
		skip:    "^(TestHalfCloseSessionShutdown|TestManyStreams_PingPong)$",
		timeout: 3 * time.Minute,
		night:   true,
	},
	{
		name:    "websocket",
		module:  "github.com/gorilla/websocket@v1.5.3",
		pkgs:    []string{"."},
		skip:    "^TestPreparedMessage$", // needs rand.Seed, which does nothing since Go 1.24
		timeout: 2 * time.Minute,
	},
	{name: "zap", module: "go.uber.org/zap@v1.28.0", pkgs: []string{".", "./zapcore"}, timeout: 2 * time.Minute, night: true},
	{name: "x-net", module: "golang.org/x/net@v0.55.0", pkgs: []string{"./http2/h2c", "./netutil", "./websocket", "./nettest"}, timeout: 2 * time.Minute},
	{name: "compress", module: "github.com/klauspost/compress@v1.20.3", pkgs: []string{"./zstd", "./s2", "./flate", "./gzip", "./huff0"}, timeout: 8 * time.Minute, night: true},
	{name: "bbolt", module: "go.etcd.io/bbolt@v1.5.0", pkgs: []string{".", "./internal/..."}, timeout: 8 * time.Minute, night: true},
	{name: "badger", module: "github.com/dgraph-io/badger/v4@v4.9.6", pkgs: []string{"./skl", "./table", "./y", "./trie"}, timeout: 5 * time.Minute, night: true},
	{
		name:    "pebble",
		module:  "github.com/cockroachdb/pebble@v1.1.5",
		pkgs:    []string{"./record", "./internal/arenaskl", "./internal/cache", "./vfs", "./sstable", "."},
		skip:    "^TestLittleEndianGetPut$", // a subtest has a random number as its name
		timeout: 10 * time.Minute,
		night:   true,
	},
	{
		name:   "raft",
		module: "github.com/hashicorp/raft@v1.8.0",
		pkgs:   []string{"."},
		// Only a few tests of whole clusters: they hold elections with a timeout of 50 ms. On a
		// busy machine three of them failed in the first run without the profiler.
		run:     "^Test(Inm|File|Net|TCP|Commit|Config|Future|Log|Obs|Peer|Discard|Raft_(StartStop|AfterShutdown|SingleNode|TripleNode|ApplyNonLeader|ApplyConcurrent|Barrier))",
		timeout: 4 * time.Minute,
		night:   true,
	},
	{name: "http2", module: "golang.org/x/net@v0.55.0", pkgs: []string{"./http2", "./http2/hpack"}, timeout: 5 * time.Minute, night: true},
	{
		name:   "grpc",
		module: "google.golang.org/grpc@v1.81.1",
		pkgs:   []string{".", "./internal/transport", "./internal/grpcsync", "./stats", "./keepalive", "./health"},
		// Its leak checker looks at all goroutines of the process after each test. So the hook
		// registers the profiler's goroutines, as for any other library.
		hook:    `leakcheck.RegisterIgnoreGoroutine("github.com/gotach/profiler")`,
		imports: []string{"google.golang.org/grpc/internal/leakcheck"},
		timeout: 8 * time.Minute,
		night:   true,
	},
	{
		name:   "nats",
		module: "github.com/nats-io/nats-server/v2@v2.12.4",
		pkgs:   []string{"./server"},
		run:    "^Test(Client|Sublist|Ping|Parse|Subject|RingBuffer|Split|Util|IPQueue|Gateway(Basic|Send|NoReconnect)|Route(Config|Send|Pool)|Closed|Account)",
		// They send without waiting until the other server listens. On a busy machine, without the
		// profiler, the first failed in 6 of 24 runs, the second in 1, the third in 5 of 109; with
		// the profiler the third failed in 4 of 110.
		skip:    "^(TestAccountTrackLatencyRemoteLeaks|TestGatewaySendsToNonLocalSubs|TestGatewaySendReplyAcrossGateways)$",
		timeout: 6 * time.Minute,
		night:   true,
	},
	{
		name:   "nats-parts",
		module: "github.com/nats-io/nats-server/v2@v2.12.4",
		pkgs:   []string{"./conf", "./internal/ldap", "./server/avl", "./server/gsl", "./server/stree", "./server/thw", "./server/certidp"},
		// They give what they measure a fixed time; on a loaded machine one of them failed
		// in one of three runs without the profiler.
		skip:    "^TestNoRace",
		timeout: 3 * time.Minute,
		night:   true,
	},
	{
		// What is left out beside clusters: file stores, JWT and MQTT take more than six
		// minutes a run each.
		name:   "nats-more",
		module: "github.com/nats-io/nats-server/v2@v2.12.4",
		pkgs:   []string{"./server"},
		run:    "^Test(Mem|WS|Monitor|Server|ConfigCheck|Options)",
		// On a loaded machine it failed in 4 runs of 50 without the profiler, in none of 50 with it.
		skip:    "^TestServerEventsHealthZClustered_NoReplicas$",
		timeout: 4 * time.Minute,
		night:   true,
	},
	{name: "xsync", module: "github.com/puzpuzpuz/xsync/v4@v4.5.0", pkgs: []string{"."}, timeout: 5 * time.Minute, night: true},
	{name: "fasthttp", module: "github.com/valyala/fasthttp@v1.70.0", pkgs: []string{".", "./fasthttputil", "./reuseport"}, timeout: 5 * time.Minute, night: true},
}
