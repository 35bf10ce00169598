package analyze

import (
	"regexp"
	"strings"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// A requestKind is a function whose invocations are requests.
type requestKind struct {
	Name     string // in one word, for a table
	What     string
	Function *regexp.Regexp
}

// fasthttpRouter matches the handlers of routers for fasthttp.
const fasthttpRouter = `^github\.com/(fasthttp/router|buaazp/fasthttprouter)\.\(\*Router\)\.Handler$`

// CallsHandler matches functions that call a handler, or the next one of a chain: all but the last
// are middleware.
var CallsHandler = regexp.MustCompile(`\.ServeHTTP$|^github\.com/gin-gonic/gin\.\(\*Context\)\.Next$|` +
	`^github\.com/labstack/echo/v\d+\.\(\*Echo\)\.add\.func\d+$|` +
	`^github\.com/gofiber/fiber/v\d+\.\(\*App\)\.(next|nextCustom|(h|\w*[rR]equestH)andler)$|` + fasthttpRouter)

// fasthttpOwn matches what fasthttp calls besides a handler.
var fasthttpOwn = regexp.MustCompile(`^(bufio|bytes|context|errors|fmt|io|net|sync|time|crypto/tls|sync/atomic|runtime|internal/\S+|github\.com/valyala/\w+)\.`)

// ServesFasthttp reports whether a function serves a connection of fasthttp, one request after the
// other.
func ServesFasthttp(function string) bool {
	return strings.HasPrefix(function, "github.com/valyala/fasthttp.(*Server).serveConn")
}

// FasthttpHandler reports whether a function that is called by one of ServesFasthttp is a handler.
func FasthttpHandler(function string) bool {
	return profile.PackageEnd(function) >= 0 && !ServesFasthttp(function) && (!fasthttpOwn.MatchString(function) || strings.Contains(function, "Handler"))
}

// RequestKinds are the functions whose invocations are requests if nothing else is said. The
// outermost one in a stack counts.
var RequestKinds = [KindCount]requestKind{
	KindHTTP: {"HTTP", "HTTP handlers (ServeHTTP)", regexp.MustCompile(`\.ServeHTTP$|^github\.com/gofiber/fiber/v\d+\.\(\*App\)\.(h|\w*[rR]equestH)andler$|` + fasthttpRouter)},
	KindGRPC: {"gRPC", "gRPC handlers", regexp.MustCompile(`^google\.golang\.org/grpc\.\(\*Server\)\.process(Unary|Streaming|)RPC$`)},
	// An HTTP handler is outside of it: see finder.handler.
	KindConnect: {"Connect", "Connect handlers", regexp.MustCompile(`^(connectrpc\.com|github\.com/bufbuild)/connect(-go)?\.\(\*Handler\)\.ServeHTTP$`)},
	kindJob: {"job", "jobs of a queue", regexp.MustCompile(`^github\.com/hibiken/asynq\.\(\*processor\)\.perform$|` +
		`^github\.com/riverqueue/river/internal/jobexecutor\.\(\*JobExecutor\)\.Execute$|` +
		`^github\.com/ThreeDotsLabs/watermill/message\.\(\*handler\)\.handleMessage$`)},
	KindTest: {"test", "tests", regexp.MustCompile(`^testing\.tRunner$`)},
}

const (
	KindHTTP = iota
	KindGRPC
	KindConnect
	kindJob
	KindTest
	KindCount
)

// RequestKind returns the kind of requests that invocations of a function are. It reports false if
// they are none.
func RequestKind(function string) (kind uint8, ok bool) {
	for i := range RequestKinds {
		if RequestKinds[i].Function.MatchString(function) {
			return uint8(i), true
		}
	}
	return 0, false
}

// BackgroundRead starts the goroutine that reads from a connection of net/http while a handler
// runs. The package serves the requests of an HTTP/1 connection on one goroutine, one after the
// other, and between two of them there is often no sample. But each has such a goroutine, and a
// later one belongs to a later request.
const BackgroundRead = "net/http.(*connReader).startBackgroundRead"

// The kinds of samples that have rows of their own.
const (
	OnCPU = iota
	NoCore
	Runnable
	Waiting
)

func StateOf(s tachyon.Status) int {
	switch {
	case s&tachyon.OnCPU != 0:
		return OnCPU
	case s&tachyon.HasGIL != 0:
		return NoCore
	case s&tachyon.GILRequested != 0:
		return Runnable
	}
	return Waiting
}

// Closure matches the end of the name of a function literal, of the body of a range-over-func loop,
// or of a wrapper that the compiler makes.
var Closure = regexp.MustCompile(`(-range\d+|\.func\d+|\.gowrap\d+|\.deferwrap\d+)(-range\d+|\.func\d+|\.gowrap\d+|\.deferwrap\d+|\.\d+)*$`)

var (
	// Elsewhere are HTTP handlers whose requests are handled by goroutines, and have rows, of their
	// own.
	Elsewhere = map[string]bool{"google.golang.org/grpc.(*Server).ServeHTTP": true, "net/http.(*timeoutHandler).ServeHTTP": true}
	// DebugHandler are handlers that look at the program itself. What it counts with expvar and
	// traces is its own work.
	DebugHandler = regexp.MustCompile(`^(net/http/pprof|github\.com/felixge/fgprof|github\.com/gotach/profiler/httpprof(/ui)?)\.|^expvar\.expvarHandler$|^golang\.org/x/net/trace\.(Traces|Events|Render)`)
)
