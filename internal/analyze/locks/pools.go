package locks

import (
	"strings"
)

// A pool is a kind of pool of connections. Who waits for one waits for a goroutine that has one: it
// is in a function of the library that has one, or in a function of the program between a call that
// returns one and the call that gives it back.
type pool struct {
	name   string
	in     []string // functions of the library that have a connection; a name that ends in "." stands for all methods of a type
	pkg    string   // whose methods return what holds one
	takes  []string // the names of these methods
	gives  []string // what gives it back, after the name of the variable
	one    string   // each pool has one goroutine with this function; "" if there is none
	own    int      // pools that the library makes for itself
	dials  string   // the function that starts a goroutine for a new connection; "" if there is none
	starts string   // the beginning of the functions that start its goroutines, of which each has a place; "" if others have them
}

var (
	poolOfSQL = &pool{
		name: "sql.DB",
		in: []string{
			"database/sql.(*DB).queryDC", "database/sql.(*DB).execDC", "database/sql.(*DB).beginDC", "database/sql.(*DB).pingDC", "database/sql.(*DB).prepareDC",
			"database/sql.rowsiFromStatement", "database/sql.resultFromStatement", "database/sql.(*Row).Scan", "database/sql.(*Rows).", "database/sql.(*Tx).", "database/sql.(*driverConn).",
		},
		pkg: "database/sql", takes: []string{"Query", "QueryContext", "Begin", "BeginTx", "Conn"}, gives: []string{".Close", ".Commit", ".Rollback"},
		one: "database/sql.(*DB).connectionOpener",
	}
	poolOfTransport = &pool{
		name: "http.Transport",
		in:   []string{"net/http.(*persistConn).roundTrip", "net/http.(*bodyEOFSignal)."},
		pkg:  "net/http", takes: []string{"Do", "Get", "Head", "Post", "PostForm", "RoundTrip"}, gives: []string{".Body.Close"},
		dials: "net/http.(*Transport).startDialConnForLocked",
	}
	// Who waits for an equal call waits for the goroutine that makes it.
	poolOfFlight = &pool{name: "singleflight.Group", in: []string{"golang.org/x/sync/singleflight.(*Group).doCall"}, pkg: "golang.org/x/sync/singleflight"}
	poolOfGroup  = &pool{name: "errgroup.Group", starts: "golang.org/x/sync/errgroup.(*Group)."}
	poolOfConc   = &pool{name: "conc's pool", starts: "github.com/sourcegraph/conc.(*WaitGroup)."}
	poolOfAnts   = &pool{name: "ants.Pool", in: []string{"github.com/panjf2000/ants/v2.(*goWorker).run.func1"}, pkg: "github.com/panjf2000/ants/v2", one: "github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers", own: 1}
	poolOfFast   = &pool{name: "fasthttp.HostClient", in: []string{"github.com/valyala/fasthttp.(*Request).Write", "github.com/valyala/fasthttp.(*Response).ReadLimitBody"}, pkg: "github.com/valyala/fasthttp", one: "github.com/valyala/fasthttp.(*HostClient).connsCleaner"}
	poolOfRedis  = &pool{name: "go-redis", in: []string{"github.com/redis/go-redis/v9/internal/pool.(*Conn).", "github.com/redis/go-redis/v9.(*Client).Watch"}, pkg: "github.com/redis/go-redis/v9"}
	poolOfPgx    = &pool{
		name: "pgxpool", in: []string{"github.com/jackc/pgx/v5/pgxpool.(*Conn).", "github.com/jackc/pgx/v5/pgxpool.(*Tx).", "github.com/jackc/pgx/v5/pgxpool.(*poolRow).", "github.com/jackc/pgx/v5/pgxpool.(*poolRows).", "github.com/jackc/pgx/v5.beginFuncExec"},
		pkg: "github.com/jackc/pgx/v5/pgxpool", takes: []string{"Acquire", "Query", "Begin", "BeginTx"}, gives: []string{".Release", ".Close", ".Commit", ".Rollback"},
		one: "github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck",
	}
)

var pools = []*pool{poolOfSQL, poolOfTransport, poolOfFlight, poolOfAnts, poolOfFast, poolOfRedis, poolOfPgx}

// rootPool is the root of the keys of places where a goroutine has a connection: path is the pool's
// name.
const rootPool = "pool"

// has reports whether a goroutine in a function of the library has a connection.
func (p *pool) has(function string) bool {
	for _, in := range p.in {
		if function == in || strings.HasSuffix(in, ".") && strings.HasPrefix(function, in) && !strings.HasSuffix(function, ").awaitDone") {
			return true
		}
	}
	return false
}
