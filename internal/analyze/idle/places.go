package idle

import "strings"

// An idlePlace is a place where a library waits for the next thing to do.
type idlePlace struct {
	in   string // the function that waits; a name that ends in .func stands for all literals in a function
	call string // what it calls to wait: a function, "" for a channel or a read, "*" for anything
	what string // what it waits for

	// always says that a wait here is idle even if the goroutine has labels. The function works for
	// a connection or in the background, and its goroutine outlives requests: its labels are those
	// of whatever happened to start it. It is false for goroutines that end with a request, whose
	// labels are right.
	always bool
}

// matches reports whether a stack waits at the place, given why it waits, the function that the
// frame calls, and whether the frame itself waits. Only waits for something from outside match, and
// system calls; a send or a lock does not.
func (p *idlePlace) matches(why, callee string, itself bool) bool {
	if !homeReasons[why] && why != "syscall" {
		return false
	}
	switch p.call {
	case "":
		return itself
	case "*":
		return true
	}
	return p.call == callee
}

// idleTable lists the known places; init adds those of HTTP/2. docs/idle.md shows the table, and a
// test compares the two. A server's goroutine is idle while it waits for the next request on a
// connection, but not while it waits for the rest of one. A client's goroutine that reads from a
// connection is idle: the goroutine that made the request waits too, and that one is not.
var idleTable = []idlePlace{
	{in: "net.(*TCPListener).Accept", call: "*", what: "a connection"},
	{in: "net.(*UnixListener).Accept", call: "*", what: "a connection"},
	{in: "os/signal.loop", call: "*", what: "a signal", always: true},
	{in: "os/signal.NotifyContext.func", what: "a signal", always: true},
	{in: "os/exec.(*Cmd).watchCtx", what: "the end of the program", always: true},
	{in: "runtime/pprof.profileWriter", call: "runtime/pprof.readProfile", what: "the next samples", always: true},

	// net/http: server.
	{in: "net/http.(*Server).Serve", call: "net.(*TCPListener).Accept", what: "a connection", always: true},
	{in: "net/http.(*Server).Serve", call: "net.(*UnixListener).Accept", what: "a connection", always: true},
	{in: "net/http.(*Server).Serve", call: "net/http.(*onceCloseListener).Accept", what: "a connection", always: true},
	{in: "net/http.(*Server).Serve", call: "crypto/tls.(*listener).Accept", what: "a connection", always: true},
	{in: "net/http.(*conn).serve", call: "bufio.(*Reader).Peek", what: "the next request", always: true},
	{in: "net/http.(*conn).serve", call: "net/http.(*conn).readRequest", what: "the first request", always: true},
	{in: "net/http.(*conn).serve", call: "net/http.(*conn).maybeServeUnencryptedHTTP2", what: "the first request", always: true},
	{in: "net/http.(*timeoutHandler).ServeHTTP", what: "its handler, which has a goroutine of its own", always: true},
	{in: "net/http.(*connReader).backgroundRead", call: "*", what: "the end of the connection"},

	// net/http: client.
	{in: "net/http.(*persistConn).readLoop", call: "bufio.(*Reader).Peek", what: "a response", always: true},
	{in: "net/http.(*persistConn).readLoop", what: "that the response is read", always: true},
	{in: "net/http.(*persistConn).writeLoop", what: "the next request", always: true},

	// fasthttp.
	{in: "github.com/valyala/fasthttp.(*Server).serveConn", call: "bufio.(*Reader).Peek", what: "the next request", always: true},
	{in: "github.com/valyala/fasthttp.(*Server).serveConnCounted", call: "bufio.(*Reader).Peek", what: "the next request", always: true},
	{in: "github.com/valyala/fasthttp.(*workerPool).workerFunc", what: "the next connection", always: true},

	// database/sql.
	{in: "database/sql.(*DB).connectionOpener", what: "that a connection is needed", always: true},
	{in: "database/sql.(*DB).connectionCleaner", what: "the next time to look", always: true},
	{in: "database/sql.(*Rows).awaitDone", what: "the end of the query"},
	{in: "database/sql.(*Tx).awaitDone", what: "the end of the transaction"},
	{in: "github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck", what: "the next time to look", always: true},

	// hashicorp/raft. Who applies something waits too, and that is not idle.
	{in: "github.com/hashicorp/raft.(*Raft).runFollower", what: "the next message", always: true},
	{in: "github.com/hashicorp/raft.(*Raft).leaderLoop", what: "the next message", always: true},
	{in: "github.com/hashicorp/raft.(*Raft).runFSM", what: "something to apply", always: true},
	{in: "github.com/hashicorp/raft.(*Raft).runSnapshots", what: "the next time to look", always: true},
	{in: "github.com/hashicorp/raft.(*Raft).replicate", what: "something to send", always: true},
	{in: "github.com/hashicorp/raft.(*Raft).heartbeat", what: "the next time to send", always: true},
	{in: "github.com/hashicorp/raft.(*Raft).pipelineReplicate", what: "something to send", always: true},
	{in: "github.com/hashicorp/raft.(*Raft).pipelineDecode", what: "an answer", always: true},

	// Pebble. Its goroutines have labels of their own.
	{in: "github.com/cockroachdb/pebble.(*tableCacheShard).releaseLoop.func", what: "something to close", always: true},
	{in: "github.com/cockroachdb/pebble.(*cleanupManager).mainLoop", what: "something to delete", always: true},
	{in: "github.com/cockroachdb/pebble/record.(*flusherCond).Wait", what: "something to write", always: true},
	{in: "github.com/cockroachdb/pebble/v2/internal/genericcache.(*shard[...]).releaseLoop", what: "something to close", always: true},
	{in: "github.com/cockroachdb/pebble/v2.(*cleanupManager).mainLoop", what: "something to delete", always: true},
	{in: "github.com/cockroachdb/pebble/v2/record.(*flusherCond).Wait", what: "something to write", always: true},

	// ants.
	{in: "github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers", what: "the next time to look", always: true},
	{in: "github.com/panjf2000/ants/v2.(*poolCommon).ticktock", what: "the next time to look", always: true},

	// gRPC.
	{in: "google.golang.org/grpc.(*Server).Serve", call: "net.(*TCPListener).Accept", what: "a connection", always: true},
	{in: "google.golang.org/grpc.(*Server).Serve", call: "net.(*UnixListener).Accept", what: "a connection", always: true},
	{in: "google.golang.org/grpc.(*Server).serverWorker", what: "the next request", always: true},
	{in: "google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams", call: "google.golang.org/grpc/internal/transport.(*framer).readFrame", what: "the next frame", always: true},
	{in: "google.golang.org/grpc/internal/transport.(*http2Server).keepalive", what: "the next time to look", always: true},
	{in: "google.golang.org/grpc/internal/transport.(*http2Client).reader", call: "google.golang.org/grpc/internal/transport.(*framer).readFrame", what: "the next frame", always: true},
	{in: "google.golang.org/grpc/internal/transport.(*http2Client).keepalive", what: "the next time to look", always: true},
	{in: "google.golang.org/grpc/internal/transport.(*loopyWriter).run", call: "google.golang.org/grpc/internal/transport.(*controlBuffer).get", what: "the next frame to write", always: true},
	{in: "google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run", what: "the next callback", always: true},
	{in: "google.golang.org/grpc.newClientStreamWithParams.func", what: "the end of the stream"},
	{in: "google.golang.org/grpc/internal/resolver/dns.(*dnsResolver).watcher", what: "the next time to look", always: true},

	// etcd.
	{in: "github.com/soheilhy/cmux.muxListener.Accept", what: "a connection", always: true},
	{in: "go.etcd.io/etcd/client/v3.(*lessor).deadlineLoop", what: "the next time to look", always: true},
	{in: "go.etcd.io/etcd/client/v3.(*lessor).keepAliveCtxCloser", what: "the end of the lease", always: true},
	{in: "go.etcd.io/etcd/client/v3.(*lessor).recvKeepAliveLoop", call: "*", what: "the next message", always: true},
	{in: "go.etcd.io/etcd/client/v3.(*lessor).sendKeepAliveLoop", what: "the next time to send", always: true},
	{in: "go.etcd.io/etcd/client/v3.(*watchGRPCStream).run", what: "the next message", always: true},
	{in: "go.etcd.io/etcd/client/v3.(*watchGRPCStream).serveSubstream", what: "the next message", always: true},
	{in: "go.etcd.io/etcd/client/v3.(*watchGRPCStream).serveWatchClient", call: "*", what: "the next message", always: true},
	{in: "go.etcd.io/etcd/pkg/v3/schedule.(*fifo).run", what: "the next job", always: true},
	{in: "go.etcd.io/etcd/server/v3/etcdserver.(*EtcdServer).run", what: "something to apply", always: true},
	{in: "go.etcd.io/etcd/server/v3/etcdserver.(*raftNode).start.func", what: "that raft is ready", always: true},
	{in: "go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.(*LeaseServer).LeaseKeepAlive", what: "the end of the stream", always: true},
	{in: "go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.(*LeaseServer).leaseKeepAlive", call: "*", what: "the next message", always: true},
	{in: "go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.(*serverWatchStream).recvLoop", call: "*", what: "the next message", always: true},
	{in: "go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.(*serverWatchStream).sendLoop", what: "the next event", always: true},
	{in: "go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.(*watchServer).Watch", what: "the end of the stream", always: true},
	{in: "go.etcd.io/etcd/server/v3/storage/backend.(*backend).run", what: "the next time to commit", always: true},
	{in: "go.etcd.io/raft/v3.(*node).run", what: "the next message", always: true},

	// NATS: client.
	{in: "github.com/nats-io/nats.go.(*Conn).readLoop", call: "github.com/nats-io/nats.go.(*natsReader).Read", what: "the next message", always: true},
	{in: "github.com/nats-io/nats.go.(*Conn).flusher", what: "something to write", always: true},
	{in: "github.com/nats-io/nats.go.(*asyncCallbacksHandler).asyncCBDispatcher", what: "the next callback", always: true},
	{in: "github.com/nats-io/nats.go.(*Conn).waitForMsgs", what: "the next message", always: true},

	// NATS: server.
	{in: "github.com/nats-io/nats-server/v2/server.(*client).readLoop", what: "the next message", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*client).writeLoop", what: "something to write", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*Server).internalReceiveLoop", what: "the next message", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*Server).internalSendLoop", what: "something to send", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*Server).delayedAPIResponder", what: "something to send", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*sendq).internalLoop", what: "something to send", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*Server).startGWReplyMapExpiration.func", what: "the next time to look", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*Server).startRateLimitLogExpiration.func", what: "the next time to look", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*Server).acceptConnections", what: "a connection", always: true},

	// NATS: JetStream.
	{in: "github.com/nats-io/nats.go/jetstream.(*pullConsumer).Consume.func", what: "the next message", always: true},
	{in: "github.com/nats-io/nats.go/jetstream.(*pullSubscription).pullMessages", what: "that more messages are needed", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*Server).processJSAPIRoutedRequests", what: "the next request", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*consumer).loopAndGatherMsgs", what: "the next message", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*consumer).processInboundAcks", what: "the next answer", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*consumer).processInboundNextMsgReqs", what: "the next request", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*consumerFileStore).flushLoop", what: "something to write", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop", what: "the next time to write", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*stream).internalLoop", what: "the next message", always: true},
	{in: "github.com/nats-io/nats-server/v2/server.(*stream).signalConsumersLoop", what: "the next message", always: true},
	{in: "github.com/nats-io/nats-server/v2/server/ats.Register.func", what: "the next time to look", always: true},

	// Redis.
	{in: "github.com/redis/go-redis/v9.(*channel).initHealthCheck.func", what: "the next time to look", always: true},
	{in: "github.com/redis/go-redis/v9.(*channel).initMsgChan.func", call: "github.com/redis/go-redis/v9.(*PubSub).Receive", what: "the next message", always: true},
	{in: "github.com/redis/go-redis/v9.(*channel).initAllChan.func", call: "github.com/redis/go-redis/v9.(*PubSub).Receive", what: "the next message", always: true},
	{in: "github.com/redis/go-redis/v9/maintnotifications.(*CircuitBreakerManager).cleanupLoop", what: "the next time to look", always: true},
}

// http2Places are the places of HTTP/2. Its code is in several packages (http2Packages), so the
// names are without package.
var http2Places = []idlePlace{
	{in: "(*serverConn).serve", what: "the next frame", always: true},
	{in: "(*serverConn).readFrames", call: "(*Framer).ReadFrame", what: "the next frame", always: true},
	{in: "(*serverConn).readFrames", what: "that the frame is handled", always: true},
	{in: "(*clientStream).writeRequest", what: "the end of the response"},
	{in: "(*clientConnReadLoop).run", call: "(*Framer).ReadFrame", what: "the next frame", always: true},
}

// HTTP2Packages are the beginnings of the names of HTTP/2's methods, before the type and after
// "(*".
var HTTP2Packages = [][2]string{
	{"net/http.", "http2"},
	{"net/http/internal/http2.", ""},
	{"golang.org/x/net/http2.", ""},
}

// idlePlaces has the known places by the function that waits.
var idlePlaces = map[string][]*idlePlace{}

func init() {
	for _, p := range http2Places {
		for _, pkg := range HTTP2Packages {
			name := func(s string) string {
				if !strings.HasPrefix(s, "(*") {
					return s
				}
				return pkg[0] + "(*" + pkg[1] + s[len("(*"):]
			}
			idleTable = append(idleTable, idlePlace{in: name(p.in), call: name(p.call), what: p.what, always: p.always})
		}
	}
	for i := range idleTable {
		p := &idleTable[i]
		idlePlaces[p.in] = append(idlePlaces[p.in], p)
	}
}

// idleReasons are the waits of the runtime's own goroutines.
var idleReasons = map[string]bool{
	"GC sweep wait": true, "GC scavenge wait": true, "finalizer wait": true, "force gc (idle)": true,
	"GOMAXPROCS updater (idle)": true, "GC worker (idle)": true, "cleanup wait": true, "trace reader (blocked)": true,
}

// idleForever is the wait that the program wants to last forever.
const idleForever = "select (no cases)"

// homeReasons are the waits for something that comes from outside. Only in these is a goroutine at
// home (see Idle), not in a send, a lock or a system call.
var homeReasons = map[string]bool{
	"chan receive": true, "select": true, "sync.Cond.Wait": true, "sleep": true, "IO wait": true,
}

// restReasons are the waits in which a goroutine may rest for a whole session (see Idle), because
// what it is there for does not happen: the end of the program, an error, a change of settings.
var restReasons = map[string]bool{
	"chan receive": true, "select": true, "sync.Cond.Wait": true, "sync.WaitGroup.Wait": true, "sleep": true,
}

// Wrappers are functions that only call the function with which a goroutine really begins.
var Wrappers = map[string]bool{
	"runtime.goexit": true, "runtime.main": true, "runtime/pprof.Do": true,
	"sync.(*WaitGroup).Go.func1":                        true,
	"golang.org/x/sync/errgroup.(*Group).Go.func1":      true,
	"golang.org/x/sync/errgroup.(*Group).add.func1":     true,
	"github.com/oklog/run.(*Group).Run.func1":           true,
	"github.com/sourcegraph/conc.(*WaitGroup).Go.func1": true,
}

// primitives are packages whose functions only carry out a wait that their caller decided on. Where
// the value is false, only those that read, accept or copy do so.
var primitives = map[string]bool{
	"runtime": true, "internal/poll": true, "internal/sync": true, "sync": true,
	"net": false, "os": false, "bufio": false, "io": false, "crypto/tls": false, "net/textproto": false,
	"encoding/json": false, "encoding/gob": false, "encoding/binary": false,
}

// primitive reports whether a function of a package only carries out a wait.
func primitive(pkg, name string) bool {
	all, ok := primitives[pkg]
	if all || !ok {
		return all || name == "time.Sleep"
	}
	method := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	for _, begin := range []string{"read", "peek", "fill", "scan", "accept", "decode", "refill", "recv", "copy", "writeto", "generic", "splice"} {
		if strings.HasPrefix(method, begin) {
			return true
		}
	}
	return false
}
