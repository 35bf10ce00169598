package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	"github.com/gotach/profiler/cmd/gotach/internal/push"
	"github.com/gotach/profiler/internal/infile"
	"github.com/spf13/cobra"
)

// A pushFlags is the command line of push.
type pushFlags struct {
	to, listen, ca, headerFile, keep string
	headers, resource                []string
	o                                push.Options
	target                           push.TargetOptions
}

// pushDrain is how long push finishes its present batch after SIGTERM.
const pushDrain = 10 * time.Second

// pushMemory is the size of the heap from which on push collects garbage more often.
const pushMemory = 64 << 20

func newPush(e *env) *cobra.Command {
	fl := pushFlags{}
	cmd := &cobra.Command{
		Use:   "push DIR --to TARGET",
		Short: "Send the profiles in a directory to a collector or a database",
		Long: `Send the profiles in DIR and below it to TARGET, now and as new ones appear. A file is sent when its
program has finished it or was killed. A program with PROFILE_ROTATE and PROFILE_KEEP needs nothing
else: its files are the buffer. push does not change, move or delete profiles.

TARGET is one of
` + targetsHelp() + `
DIR/.push-….cursor remembers what TARGET has. Each file is sent at least once, and after a crash
perhaps again; the profiles of an OTLP message then have the same ids.

DIR must belong to you or root, and nobody else may write to it, except your group if it is yours:
others could make push forget files. For another DIR, such as /tmp, another user's or a volume with
mode 0777, give --state FOLDER: the cursor and refused files are then in FOLDER, and DIR is only read.
Links in DIR and below are not followed.

A file counts as sent when TARGET confirms it: OTLP by status 200 of type application/x-protobuf (or
JSON) without rejected profiles, Pyroscope by status 200 without a body. A login page is no
confirmation.

push tries again if TARGET cannot be reached, is busy (408, 425, 429, 5xx), denies access (401, 403,
407), is not at that address (404, 405), redirects or answers something else. It waits longer each time, up to a minute, or for Retry-After, up
to an hour. Redirects are not followed. A message that is too large (413) is sent in parts. Profiles
that TARGET refuses (other 4xx) or that are damaged go to DIR/refused, each with the reason beside it;
"gotach push DIR/refused" tries them again. DIR/refused has at most 1,000 files and --keep-refused bytes. A
file that its program deletes before it is sent is counted and logged.

SIGTERM ends push after it has finished what it is sending, or after ` + pushDrain.String() + `. With --once, push ends when all
finished files are sent, or when --tries or --give-up is reached. The exit code is 1 if some were not
sent.

No message contains TARGET's user, password or query, or the value of a header.`,
		Example: `  gotach push /var/lib/shop/profiles --to otlp+http://collector:4318 --listen :9464
  gotach push /var/lib/shop/profiles --to pyroscope+http://pyroscope:4040 --once    # from cron
  gotach push profiles --to otlp+https://otlp.example.com --header-file /etc/gotach/token --resource deployment.environment.name=prod`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("push: %s, want one directory; usage: gotach %s", plural(int64(len(args)), "argument"), cmd.Use)
			}
			if strings.Contains(args[0], "://") { // it may have a password
				return errors.New("push: the argument is a URL, want a directory; the target is that of --to")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			fl.o.Dir = args[0]
			return runPush(e, &fl)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { // without the argument: it may be -H and a token
		text, _, found := strings.Cut(err.Error(), " in -")
		if text, _, bad := strings.Cut(text, ": --"); found || bad && strings.HasPrefix(text, "bad flag") {
			return fmt.Errorf("push: %s", text)
		}
		return err
	})
	f := cmd.Flags()
	f.StringVar(&fl.to, "to", "", "send to `TARGET`")
	f.BoolVar(&fl.o.Once, "once", false, "end when all files that are finished are sent")
	f.DurationVar(&fl.o.Interval, "every", 10*time.Second, "look for new files every `TIME`, and up to half of that later")
	f.StringVar(&fl.listen, "listen", "", "serve Prometheus counters at http://`ADDRESS`/metrics, such as :9464")
	f.StringArrayVar(&fl.headers, "header", nil, "send `HEADER` with each request, such as 'X-Scope-OrgID: shop'; may be repeated")
	f.StringVar(&fl.headerFile, "header-file", "", "send the headers in `FILE`, one a line; for tokens, which a command line shows to others")
	f.StringVar(&fl.ca, "ca", "", "trust the certificates in `FILE` (PEM) instead of the system's")
	f.StringArrayVar(&fl.resource, "resource", nil, "set the attribute `KEY=VALUE` of the process, such as service.name=shop; may be repeated")
	f.BoolVar(&fl.target.Goroutines, "goroutines", false, "tell goroutines apart by thread.id; there may be very many")
	f.DurationVar(&fl.target.Timeout, "timeout", 30*time.Second, "end a request after `TIME`")
	f.IntVar(&fl.o.Tries, "tries", 8, "with --once: give up after `N` failures one after the other")
	f.DurationVar(&fl.o.GiveUp, "give-up", 10*time.Minute, "with --once: give up when failures and the waits after them took `TIME` in all")
	f.StringVar(&fl.keep, "keep-refused", "1GB", "delete the oldest files in DIR/refused beyond `SIZE`, or beyond 1,000 files")
	f.StringVar(&fl.o.State, "state", "", "only read DIR; keep the cursor and refused files in `FOLDER`, yours and of this DIR only")
	var schemes []string
	for _, k := range push.Kinds {
		schemes = append(schemes, k.Usage)
	}
	completeWords(cmd, "to", schemes)
	return cmd
}

// targetsHelp lists the kinds of targets.
func targetsHelp() string {
	var b strings.Builder
	for _, k := range push.Kinds {
		if k.Doc != "" {
			printf(&b, "  %-28s %s\n", k.Usage, k.Doc)
		}
	}
	return b.String()
}

// maxSetting bounds the size of files that flags name, in bytes.
const maxSetting = 16 << 20

// set checks the flags and sets the options.
func (fl *pushFlags) set() (err error) {
	if fl.to == "" {
		return usagef("push: no target; set it with --to, such as --to otlp+http://localhost:4318")
	}
	if fl.o.Interval <= 0 || fl.target.Timeout <= 0 || fl.o.Tries <= 0 || fl.o.GiveUp <= 0 {
		return usagef("push: --every, --timeout, --tries and --give-up must be above 0")
	}
	if fl.o.KeepRefused, err = parseSize("push", fl.keep); err != nil {
		return usagef("push: --keep-refused %q: it must be like 1GB", fl.keep)
	}
	headers := fl.headers
	if fl.headerFile != "" {
		b, err := infile.Read(fl.headerFile, maxSetting)
		if err != nil {
			return fmt.Errorf("push: --header-file: %w", err)
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" {
				headers = append(headers, line)
			}
		}
	}
	fl.target.Header = http.Header{}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || !headerName.MatchString(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return usagef("push: a header must be like 'Name: value'") // the text may be a password
		}
		fl.target.Header.Add(name, strings.TrimSpace(value))
	}
	for _, r := range fl.resource {
		key, value, ok := strings.Cut(r, "=")
		if !ok || key == "" {
			return usagef("push: --resource %q: it must be like service.name=shop", r)
		}
		fl.target.Resource = append(fl.target.Resource, [2]string{key, value})
	}
	if fl.ca != "" {
		if fl.target.CA, err = infile.Read(fl.ca, maxSetting); err != nil {
			return fmt.Errorf("push: --ca: %w", err)
		}
	}
	return nil
}

// headerName is what a header's name may be (RFC 9110, 5.6.2).
var headerName = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

func runPush(e *env, fl *pushFlags) error {
	if err := fl.set(); err != nil {
		return err
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(pushMemory)
	}
	m := push.NewMetrics()
	fl.target.Metrics, fl.o.Metrics = m, m
	target, name, key, err := push.Open(fl.to, fl.target)
	if err != nil {
		return usagef("push: --to: %w", err)
	}
	defer target.Close()
	if fl.listen != "" {
		stop, err := serveMetrics(fl.listen, m)
		if err != nil {
			return fmt.Errorf("push: --listen: %w", err)
		}
		defer stop()
	}
	e.bar = e.progress("push")
	defer e.barDone()
	fl.o.Target, fl.o.Name, fl.o.Key, fl.o.Drain, fl.o.Progress = target, name, key, pushDrain, e.bar.update
	fl.o.Log = slog.New(slog.NewTextHandler(e.stderr, nil))
	e.grace.Store(int64(pushDrain + grace))
	p, err := push.New(fl.o)
	if errors.Is(err, push.ErrShared) {
		return fmt.Errorf("push: %w; give a folder of your own with --state", err)
	}
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	err = p.Run(e.ctx)
	e.barDone()
	sent := m.Files("sent")
	size := fmt.Sprintf("%.1f MB", float64(m.Bytes())/1e6)
	if m.Bytes() < 1e6 {
		size = fmt.Sprintf("%.1f KB", float64(m.Bytes())/1e3)
	}
	_, werr := printf(e.stdout, "%s (%s) sent to %s; refused: %d, damaged: %d, deleted before: %d\n",
		plural(sent, "file"), size, name, m.Files("refused"), m.Files("unreadable"), m.Files("vanished"))
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	if n := m.Files("refused") + m.Files("unreadable"); n > 0 && fl.o.Once {
		return fmt.Errorf("push: %s not sent; see %s", plural(n, "file"), filepath.Join(cmp.Or(fl.o.State, fl.o.Dir), "refused"))
	}
	return werr
}

// serveMetrics serves counters until stop is called.
func serveMetrics(address string, m *push.Metrics) (stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; give another address, such as :9464", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = m.Write(w) // the client is gone
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	return func() {
		if err := s.Close(); err == nil || errors.Is(err, http.ErrServerClosed) {
			<-ended
		}
	}, nil
}
