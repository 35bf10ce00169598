package locks

import (
	"fmt"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/profile"
)

// A KnownWait is a function of a library in which goroutines wait for one thing only. Its name says
// more than its channel, and who else uses that channel is no cause: it is the library's own
// goroutine.
type KnownWait struct {
	in     string // the function; in names of generic types is [...]
	what   string // what it waits for
	pool   *pool  // nil: who keeps it waiting is not looked for
	itself bool   // only where the function itself waits: what it calls waits for something else, such as for a new connection
	sleeps bool   // it may sleep, until it looks again
	calls  string // only where it calls this function, whose own known wait says less
}

// EqualCall is what goroutines wait for whose call another one makes.
const EqualCall = "an equal call of singleflight"

// LockOfSQLite is what SQLite waits for until it gives up with "database is locked".
const LockOfSQLite = "the lock of a SQLite database"

// MessageOfNATS is what goroutines wait for that take the next message of a subscription. It may be
// the next thing to do.
const MessageOfNATS = "a message of NATS"

// ATime is what a goroutine waits for that waits for a channel of package time, by the source text.
const ATime = "a time"

var timeWait = &KnownWait{what: ATime}

var (
	responseOfHTTP = "a response of an HTTP server"
	freeOfRedis    = "a free connection of go-redis"
)

// knownWaits lists the known waits; init adds those of HTTP/2. The innermost function of a stack
// counts. docs/waits.md has the list.
var knownWaits = []KnownWait{
	{in: "database/sql.(*DB).conn", what: "a free connection of sql.DB", pool: poolOfSQL, itself: true},

	{in: "net/http.(*Transport).getConn", what: "a connection of http.Transport", pool: poolOfTransport, itself: true},
	{in: "net/http.(*persistConn).roundTrip", what: responseOfHTTP},
	{in: "net/http.(*bodyEOFSignal).Read", what: "the rest of a response of an HTTP server"},

	{in: "google.golang.org/grpc/internal/transport.(*ClientStream).waitOnHeader", what: "a response of a gRPC server"},
	{in: "google.golang.org/grpc/internal/transport.(*Stream).waitOnHeader", what: "a response of a gRPC server"}, // in versions without ClientStream
	{in: "google.golang.org/grpc/internal/transport.(*recvBufferReader).readMessageHeaderClient", what: "a message of a gRPC server"},
	{in: "google.golang.org/grpc/internal/transport.(*recvBufferReader).readClient", what: "a message of a gRPC server"},
	{in: "google.golang.org/grpc/internal/transport.(*http2Client).NewStream", what: "a place for a stream of gRPC"},
	{in: "google.golang.org/grpc/internal/transport.(*writeQuota).get", what: "the receiver of a gRPC stream"},

	{in: "github.com/nats-io/nats.go.(*Conn).requestWithContext", what: "a response of NATS"},
	{in: "github.com/nats-io/nats.go.(*Conn).newRequest", what: "a response of NATS"},
	{in: "github.com/nats-io/nats.go.(*Conn).FlushTimeout", what: "a response of NATS"},
	{in: "github.com/nats-io/nats.go.(*Conn).FlushWithContext", what: "a response of NATS"},
	{in: "github.com/nats-io/nats.go.(*Subscription).NextMsg", what: MessageOfNATS},
	{in: "github.com/nats-io/nats.go.(*Subscription).nextMsgNoTimeout", what: MessageOfNATS},
	{in: "github.com/nats-io/nats.go.(*Subscription).nextMsgWithContext", what: MessageOfNATS},
	{in: "github.com/nats-io/nats.go/jetstream.(*pullSubscription).Next", what: MessageOfNATS},
	{in: "github.com/nats-io/nats.go/jetstream.(*pullConsumer).Next", what: MessageOfNATS},

	{in: "github.com/redis/go-redis/v9/internal.(*FastSemaphore).Acquire", what: freeOfRedis, pool: poolOfRedis},
	{in: "github.com/redis/go-redis/v9/push.(*Processor).ProcessPendingNotifications", what: "a response of Redis"},

	{in: "github.com/valyala/fasthttp.(*HostClient).AcquireConn", what: "a connection of fasthttp.HostClient", pool: poolOfFast, itself: true},

	{in: "github.com/panjf2000/ants/v2.(*poolCommon).retrieveWorker", what: "a worker of ants.Pool", pool: poolOfAnts},

	{in: "github.com/sourcegraph/conc/pool.(*Pool).Go", what: "a goroutine of conc's pool", pool: poolOfConc, itself: true},

	{in: "github.com/jackc/pgx/v5/pgconn.(*PgConn).peekMessage", what: "a response of PostgreSQL"},
	{in: "github.com/jackc/puddle/v2.(*Pool[...]).acquire", what: "a free connection of pgxpool", pool: poolOfPgx, calls: "golang.org/x/sync/semaphore.(*Weighted).Acquire"},

	{in: "modernc.org/sqlite.busyHandler", what: LockOfSQLite, sleeps: true},
	{in: "modernc.org/sqlite/lib._sqliteDefaultBusyCallback", what: LockOfSQLite, sleeps: true},

	{in: "golang.org/x/sync/singleflight.(*Group).Do", what: EqualCall, pool: poolOfFlight, itself: true},
	{in: "golang.org/x/sync/errgroup.(*Group).Go", what: "a place in errgroup.Group", pool: poolOfGroup, itself: true},
	{in: "golang.org/x/sync/semaphore.(*Weighted).Acquire", what: "a place in semaphore.Weighted"},
	{in: "golang.org/x/time/rate.(*Limiter).wait", what: "a token of rate.Limiter"},
}

// knownIn has the known waits by the function that waits.
var knownIn = map[string]*KnownWait{}

func init() {
	for _, method := range []string{"RoundTrip", "roundTrip"} {
		for _, pkg := range idle.HTTP2Packages {
			knownWaits = append(knownWaits, KnownWait{in: pkg[0] + "(*" + pkg[1] + "ClientConn)." + method, what: responseOfHTTP})
		}
	}
	for i := range knownWaits {
		knownIn[knownWaits[i].in] = &knownWaits[i]
	}
}

// known returns what the stack of a waiting goroutine is known to wait for, nil if it is in none of
// the functions. A wait for a lock is none of these: whoever has it is known.
func (w *waitChains) known(stack uint32) *KnownWait {
	if k := *analyze.At(&w.knownOf, stack, w.Sums.Stacks()); k != nil {
		return k.orNil()
	}
	found := noKnownWait
	leaf := w.Leaf(stack)
	itself, callee := true, ""
	for at := w.Caller(stack); at != 0 && leaf != nil; at = w.Caller(at) {
		f := w.Leaf(at)
		if k := Known(f.Func); (found == noKnownWait || k.Outer()) && k.In(analyze.Reason(leaf), callee, itself) != "" {
			found = k
		}
		callee = f.Func
		if w.CodeOf(at) == profile.ProgramCode {
			if itself && found == noKnownWait && w.sources.ForTime(f) != syntax.NoTime {
				found = timeWait
			}
			break
		}
		itself = itself && IsSync(f)
	}
	w.knownOf[stack] = found
	return found.orNil()
}

// Known returns the known wait in a function of a library, nil if there is none.
func Known(function string) *KnownWait { return knownIn[profile.FuncName(function)] }

// In returns what goroutines wait for that wait there for a reason, such as
// "a free connection of sql.DB", "" if it is not known. itself says that the function waits, and
// not one that it calls, which is callee. Of nil it is "".
func (k *KnownWait) In(why, callee string, itself bool) string {
	if k == nil || k.itself && !itself || k.calls != "" && k.calls != callee {
		return ""
	}
	switch strings.TrimSuffix(why, " (durable)") {
	case "chan receive", "chan send", "select", "IO wait", "sync.Cond.Wait":
		return k.what
	case "sync.WaitGroup.Wait":
		if k.pool == poolOfFlight {
			return k.what
		}
	case "sleep":
		if k.sleeps {
			return k.what
		}
	}
	return ""
}

// Outer reports whether it says more than the known wait of a function that it calls.
func (k *KnownWait) Outer() bool { return k != nil && k.calls != "" }

// noKnownWait is that of stacks that have none.
var noKnownWait = &KnownWait{}

func (k *KnownWait) orNil() *KnownWait {
	if k == noKnownWait {
		return nil
	}
	return k
}

// An inUse says how many goroutines had places of a pool while somebody waited for one.
type inUse struct {
	of    syntax.Key  // the pool
	times map[int]int // instants by the number of goroutines
	mixed bool        // several pools, or goroutines that have more than one place: the number says nothing
}

// sureInUse is the part of the instants at which as many places must be in use for the number to be
// said.
const sureInUse = 0.8

// text says how many places are in use, "" if that is not known. Nobody waits while one is free, so
// those in use are all there are; of http.Transport those for one host.
func (u *inUse) text(k *KnownWait) string {
	if u == nil || u.mixed {
		return ""
	}
	all, most := 0, 0
	for count, n := range u.times {
		all += n
		if n > u.times[most] {
			most = count
		}
	}
	switch {
	case most == 0 || float64(u.times[most]) < sureInUse*float64(all):
		return ""
	case k.pool == poolOfTransport:
		return fmt.Sprintf(" (%d in use)", most)
	}
	return fmt.Sprintf(" (%d of %d in use)", most, most)
}
