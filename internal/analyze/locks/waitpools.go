package locks

import (
	"go/ast"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// A pool is a kind of pool of connections. Who waits for one waits for a goroutine that has one: it is in a function of the library
// that has one, or in a function of the program between a call that returns one and the call that gives it back.
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

// rootPool is the root of the keys of places where a goroutine has a connection: path is the pool's name.
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

// A poolCall is a line of the program that calls a method of a library with a pool.
type poolCall struct {
	pool *pool
	file string
	line int32
}

// poolIndex knows which lines of the program hold connections.
type poolIndex struct {
	calls map[poolCall]bool
	lines map[*syntax.Func][]poolLines
}

// poolLines are the lines of a function between a call that returns what holds a connection and that which gives it back.
type poolLines struct {
	pool     *pool
	from, to int
	on       ast.Expr // the pool
}

// findPools finds the lines at which the program was seen calling a library with a pool.
func (h *holdIndex) findPools() {
	h.pools = poolIndex{calls: map[poolCall]bool{}, lines: map[*syntax.Func][]poolLines{}}
	list, all := h.Source.Stacks(), h.Source.Frames()
	for i := range list {
		if list[i].Caller == 0 {
			continue
		}
		f := &all[list[list[i].Caller].Frame]
		if f.File == "" || h.CodeOf(list[i].Caller) != profile.ProgramCode {
			continue
		}
		callee := profile.Package(all[list[i].Frame].Func)
		for _, p := range pools {
			if callee == p.pkg {
				h.pools.calls[poolCall{p, f.File, f.Line}] = true
			}
		}
	}
}

// poolHolds returns the keys of the pools of which a frame has a connection.
func (h *holdIndex) poolHolds(f *tachyon.Frame) (list []frameHold) {
	for _, p := range pools {
		if p.has(f.Func) {
			list = append(list, frameHold{key: h.key(syntax.Key{Root: rootPool, Path: p.name})})
		}
	}
	for _, l := range h.poolLines(f) {
		list = append(list, frameHold{key: h.key(syntax.Key{Root: rootPool, Path: l.pool.name})})
	}
	return list
}

// poolLines returns the lines that a frame of the program is in.
func (h *holdIndex) poolLines(f *tachyon.Frame) (in []poolLines) {
	if len(h.pools.calls) == 0 || profile.CodeOf(f) != profile.ProgramCode {
		return nil
	}
	file := h.sources.File(f)
	if file == nil {
		return nil
	}
	x := file.Of(f)
	if x == nil {
		return nil
	}
	list, ok := h.pools.lines[x]
	if !ok {
		list = poolLinesOf(x, func(p *pool, line int) bool { return h.pools.calls[poolCall{p, f.File, int32(line)}] })
		h.pools.lines[x] = list
	}
	for _, l := range list {
		if l.from < int(f.Line) && int(f.Line) <= l.to {
			in = append(in, l)
		}
	}
	return in
}

// poolLinesOf finds the lines of a function. called reports whether a line was seen calling the library.
func poolLinesOf(x *syntax.Func, called func(p *pool, line int) bool) (list []poolLines) {
	ast.Inspect(x.Body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Rhs) != 1 {
			_, inner := n.(*ast.FuncLit)
			return !inner
		}
		call, ok := a.Rhs[0].(*ast.CallExpr)
		held, named := a.Lhs[0].(*ast.Ident)
		if !ok || !named {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		line := x.File.Line(method.Sel.Pos())
		for _, p := range pools {
			if slices.Contains(p.takes, method.Sel.Name) && (called(p, line) || called(p, x.File.Line(call.Rparen))) {
				list = append(list, poolLines{pool: p, from: x.File.Line(a.End()), to: givesBack(x, held.Name, p), on: method.X})
			}
		}
		return true
	})
	return list
}

// givesBack returns the last line in which a variable has a connection: that of the last call that gives it back, or the end of the
// function if that is deferred or not there.
func givesBack(x *syntax.Func, name string, p *pool) int {
	last := 0
	ast.Inspect(x.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if text := syntax.Text(n.Fun); strings.HasPrefix(text, name+".") && slices.Contains(p.gives, text[len(name):]) {
				last = max(last, x.File.Line(n.Pos()))
			}
		}
		return true
	})
	if last == 0 {
		return x.To
	}
	return last
}

// poolOn returns the key of the pool that a stack uses, as the text of the innermost line of the program has it, which is returned too. It
// is zero if the text does not say it, or if it is a parameter or the like, which may be another pool in each call.
func (w *waitChains) poolOn(stack uint32, p *pool) (key syntax.Key, in *tachyon.Frame) {
	inside := false
	for at := stack; at != 0; at = w.Caller(at) {
		f := w.Leaf(at)
		if w.CodeOf(at) != profile.ProgramCode {
			inside = inside || profile.Package(f.Func) == p.pkg
			continue
		}
		if lines := w.holdIndex.poolLines(f); !inside && len(lines) > 0 {
			return w.poolKey(f, lines[0].on), f
		}
		if inside {
			return w.poolKey(f, nil), f
		}
	}
	return syntax.Key{}, nil
}

// hasOne returns the line of a stack that waits for a connection of a pool by which it has one of the same pool already, noLine if it has none.
// Of a pool that has several parts, such as one for each host, that is not known.
func (w *waitChains) hasOne(stack uint32, p *pool) *tachyon.Frame {
	if p == nil || p.one == "" {
		return noLine
	}
	of := analyze.At(&w.hasOf, stack, w.Sums.Stacks())
	if *of != nil {
		return *of
	}
	*of = noLine
	mine, _ := w.poolOn(stack, p)
	for at := w.Caller(stack); at != 0; at = w.Caller(at) {
		for _, l := range w.holdIndex.poolLines(w.Leaf(at)) {
			if *of == noLine && l.pool == p && (w.single(p) || mine != (syntax.Key{}) && w.poolKey(w.Leaf(at), l.on) == mine) {
				*of = w.Leaf(at)
			}
		}
	}
	return *of
}

// poolKey returns the key of an expression in a frame's function, or of what the frame's line calls a method of.
func (w *waitChains) poolKey(f *tachyon.Frame, on ast.Expr) syntax.Key {
	file := w.sources.File(f)
	if file == nil {
		return syntax.Key{}
	}
	x := file.Of(f)
	if x == nil {
		return syntax.Key{}
	}
	if on == nil {
		ast.Inspect(x.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && on == nil {
				if method, ok := call.Fun.(*ast.SelectorExpr); ok && file.Line(method.Sel.Pos()) == int(f.Line) {
					if _, chained := method.X.(*ast.CallExpr); !chained {
						on = method.X
					}
				}
			}
			return on == nil
		})
	}
	if on == nil {
		return syntax.Key{}
	}
	if k := x.Key(on); !strings.HasPrefix(k.Root, "func ") || strings.HasPrefix(f.Func, "main.main.func") { // there is one main.main
		return k
	}
	return syntax.Key{}
}

// single reports whether the program has one pool of a kind.
func (w *waitChains) single(p *pool) bool { return p.one != "" && len(w.poolsSeen[p]) == 1+p.own }

// notePools notes the goroutines that pools have one of.
func (w *waitChains) notePools(s *analyze.Sample) {
	p := *analyze.At(&w.poolOf, s.Stack, w.Sums.Stacks())
	if p == nil {
		p = poolOfGroup // none
		for at := s.Stack; at != 0; at = w.Caller(at) {
			for _, of := range pools {
				if of.one != "" && w.Leaf(at).Func == of.one {
					p = of
				}
			}
		}
		w.poolOf[s.Stack] = p
	}
	if p.one == "" || len(w.poolsSeen[p]) > 1+p.own {
		return
	}
	if w.poolsSeen[p] == nil {
		w.poolsSeen[p] = map[uint64]bool{}
	}
	w.poolsSeen[p][s.Goroutine] = true
}
