package main

import (
	"strings"

	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

func newRequests(e *env) *cobra.Command {
	var o formats.Options
	var function, slowest string
	var asJSON bool
	var choice selectFlags
	var sources sourceFlags
	cmd := &cobra.Command{
		Use:   "requests FILE...",
		Short: "Show how long requests took, and why the slow ones were slow",
		Long: `Show how long requests took: a histogram, percentiles, and what the slow ones did more than those near
the median. The program needs no code for it: a request is an invocation of a function, the time in
which the same call stays on a goroutine's stack. By default the function is an HTTP handler
(ServeHTTP, or one of fasthttp or Fiber), else a gRPC handler, else a test; --func sets another.

With --label KEY, a request is the time in which goroutines have one value of a pprof label. As
goroutines inherit labels, it includes all goroutines that work for it.

If there are several, each kind (HTTP, gRPC, Connect, jobs of a queue, tests) and each handler has a
row. Middleware of net/http, Gin, Echo, Fiber and fasthttp's router is no handler. Handlers that look at the program itself, such as /debug/pprof, are apart.

Most requests that are shorter than the time between two samples have no sample. They are counted too: in
net/http, HTTP/2 and gRPC each request starts a goroutine, and the runtime numbers goroutines. This
is exact if no others start goroutines that are as short (HTTP/2, gRPC and jobs: no others at all). Else
the number is a range or a minimum. Percentiles are those of all requests. A time after < is a
limit: the time between two samples or, if the number is not known within a tenth, the percentile for
the minimum. How many requests a second are slow is known however rare samples are.

Percentiles are estimated from all requests together, and are more exact than the length of one. If
1 % of the requests take much longer than all others, the 99th percentile lies between the two and is
not well defined. Requests that are not finished at the end of the profile do not count.

Successive requests of net/http and gRPC are told apart. Other successive calls on one
goroutine count as one if no sample is between them. Where that is possible, because a
goroutine waits again where it waited before, each percentile is a range: at one end each wait is a
call of its own, at the other none is.

Locks and channels have names if the source file is read. In the lines of the slowest requests, █
is running, ▒ ready but without a core, ░ waiting.

` + sourceHelp + `

` + selectHelp + `
A request counts if they select a sample of it: --state 'sync.Mutex.Lock' has the requests that waited
for a Mutex. convert --slowest makes a pprof profile of the slowest requests.`,
		Example: `  gotach requests app.tach
  gotach requests app.tach --func 'QueryContext$' --slowest 5%
  gotach requests app.tach --label trace_id
  gotach requests app.tach --json | jq '.difference[0]'`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			ro, err := requestOptions("requests", function, slowest, &choice)
			if err == nil {
				err = choice.set("requests", &o)
			}
			if err != nil {
				return err
			}
			read, err := sources.reader("requests")
			if err != nil {
				return err
			}
			ro.Source = read.Read
			return e.read("requests", args, o, func(in *formats.Input) error {
				s, err := samples(in, stream.Options{Labels: true, Objects: true})
				if err != nil {
					return err
				}
				r, err := requests.Find(s, ro)
				if err != nil {
					return err
				}
				return e.found(r, asJSON, func() []byte {
					t := requestTable{r: r, paint: newPaint(e.stdout), width: width(e.stdout)}
					text := t.render(in.Name)
					if r.Count == 0 {
						text = append(text, noRequests(r, ro, o.Select != nil)...)
					}
					return text
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&function, "func", "", "a request is an invocation of a function that matches `REGEXP`")
	f.StringVar(&slowest, "slowest", "1%", "the `PERCENT` of the requests that are slow")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	sources.add(cmd)
	choice.add(cmd)
	f.Lookup("label").Usage = "a request is the time in which the label `KEY` has one value; KEY=VALUE: only requests with this label"
	fromFlags(cmd, &o)
	return cmd
}

// requestOptions checks the flags. From those that select samples it takes the label without a
// value: its values are the requests.
func requestOptions(cmd, function, slowest string, choice *selectFlags) (o requests.Options, err error) {
	var labels []string
	for _, text := range choice.labels {
		switch {
		case strings.Contains(text, "="):
			labels = append(labels, text)
		case o.Label != "":
			return o, usagef("%s: --label %s and --label %s exclude each other", cmd, o.Label, text)
		default:
			o.Label = text
		}
	}
	choice.labels = labels
	if o.Slowest, err = parsePercent(slowest); err != nil {
		return o, usagef("%s: --slowest: %w", cmd, err)
	}
	switch {
	case o.Slowest == 0 || o.Slowest > 1:
		return o, usagef("%s: --slowest %s: it must be above 0 and at most 100%%", cmd, slowest)
	case function != "" && o.Label != "":
		return o, usagef("%s: --func and --label %s exclude each other", cmd, o.Label)
	case function != "":
		if o.Func, err = pattern(function); err != nil {
			return o, usagef("%s: --func: %w", cmd, err)
		}
	}
	return o, nil
}
