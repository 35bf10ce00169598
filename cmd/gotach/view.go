package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

func newView(e *env) *cobra.Command {
	var o formats.Options
	var po page.Options
	var size string
	var noOpen bool
	var choice selectFlags
	cmd := &cobra.Command{
		Use:   "view FILE|DIR... [-- FILE|DIR...]",
		Short: "Look at a profile in a browser, also while it is being written",
		Long: `Show the page of gotach html from a server on this computer, and open it in a browser. Only who knows the
address that is printed sees it. The command runs until Ctrl-C.

A file may be as large as it likes: the page says how far the reading is, and where it leaves something out,
a selected range has a link to a page of that range in detail. If the profile is still being
written, the page shows what is new every few seconds. DIR stands for all .tach files in it, those that
are written later too.

With -- the page shows what is different between the profiles before it and those after it. Flags come first then.

` + selectHelp,
		Example: `  gotach view app.tach
  gotach view --no-open /var/lib/app/profiles
  gotach view before.tach -- after.tach`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			sides := [][]string{args}
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				if n == 0 || n == len(args) {
					return usagef("view: there must be files before -- and after it")
				}
				sides = [][]string{args[:n], args[n:]}
			}
			if slices.Contains(args, "-") {
				return usagef("view: standard input can be read only once; use gotach html")
			}
			var err error
			if po.MaxSize, err = parseSize("view", size); err != nil {
				return err
			}
			if err := choice.set("view", &o); err != nil {
				return err
			}
			if o.From != "" {
				if _, err := formats.ByName(o.From); err != nil {
					return usagef("--from: %w", err)
				}
			}
			return view(e, &viewed{sides: sides, o: o}, po, !noOpen)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&noOpen, "no-open", false, "print the address only, open no browser")
	f.StringVar(&size, "max-size", "15MB", "send the page at most this `SIZE` of data at once, such as 2MB")
	f.BoolVar(&po.NoSource, "no-source", false, "leave out lines of source files")
	choice.add(cmd)
	fromFlags(cmd, &o)
	return cmd
}

// view serves the page until the user interrupts.
func view(e *env, v *viewed, po page.Options, open bool) error {
	v.warn = e.warn
	if err := v.check(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	s := page.NewServer(e.ctx, page.ServerOptions{Options: po, Title: v.title(), Inputs: v.inputs, Version: v.version})
	defer s.Close()
	local := page.NewLocal(l, s)
	server := &http.Server{Handler: local, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	fmt.Fprintf(e.stdout, "%s\n", local.URL())
	fmt.Fprintln(e.stderr, "gotach: Ctrl-C ends this")
	if open {
		if err := openBrowser(local.URL()); err != nil {
			fmt.Fprintf(e.stderr, "gotach: open the address in a browser; none was opened: %s\n", err)
		}
	}
	select {
	case err = <-ended:
		return fmt.Errorf("view: %w", err)
	case <-e.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace/3)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return server.Close()
	}
	return nil
}

// openBrowser opens a URL in the user's browser.
func openBrowser(url string) error {
	var c *exec.Cmd
	switch runtime.GOOS {
	case "windows":
		c = exec.Command("rundll32", "url.dll,FileProtocolHandler", url)
	case "darwin":
		c = exec.Command("open", url)
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("there is no display")
		}
		c = exec.Command("xdg-open", url)
	}
	if err := c.Start(); err != nil {
		return err
	}
	go func() { _ = c.Wait() }() // it says itself what is wrong
	return nil
}

// A viewed is what gotach view shows: files and folders, of one profile or of two.
type viewed struct {
	sides [][]string
	o     formats.Options
	warn  func(error)

	mu   sync.Mutex
	said map[string]bool // warnings
}

// files returns the files of a side. A folder stands for the .tach files in it, if there are any.
func (v *viewed) files(side []string) (list []string) {
	for _, path := range side {
		entries, err := os.ReadDir(path)
		n := len(list)
		for _, x := range entries {
			if err == nil && !x.IsDir() && filepath.Ext(x.Name()) == ".tach" {
				list = append(list, filepath.Join(path, x.Name()))
			}
		}
		if len(list) == n {
			list = append(list, path)
		}
	}
	return list
}

// title returns the names of all, shortened.
func (v *viewed) title() string {
	var names []string
	for _, side := range v.sides {
		name := filepath.Base(side[0])
		if len(side) > 1 {
			name += fmt.Sprintf(" and %d more", len(side)-1)
		}
		names = append(names, name)
	}
	return strings.Join(names, " – ")
}

// check opens all files once, so that a wrong name is an error of the command.
func (v *viewed) check() error {
	_, _, done, err := v.inputs(context.Background(), page.Span{})
	if err != nil {
		return err
	}
	return done()
}

// version returns the sizes and times of all files.
func (v *viewed) version() string {
	var b strings.Builder
	for _, side := range v.sides {
		for _, path := range v.files(side) {
			for _, path := range []string{path, path + ".journal"} {
				if fi, err := os.Stat(path); err == nil {
					fmt.Fprintf(&b, "%s %d %d\n", path, fi.Size(), fi.ModTime().UnixNano())
				}
			}
		}
	}
	return b.String()
}

// inputs opens the profiles.
func (v *viewed) inputs(ctx context.Context, span page.Span) (list []page.Input, growing bool, done func() error, err error) {
	o := v.o
	o.Context, o.Warn = ctx, v.warnOnce
	if o.Select, err = span.Select(o.Select); err != nil {
		return nil, false, nil, err
	}
	var opened []*formats.Input
	done = func() (err error) {
		for _, in := range opened {
			err = errors.Join(err, in.Close())
		}
		return err
	}
	for _, side := range v.sides {
		in, err := formats.OpenAll(v.files(side), o)
		if err != nil {
			return nil, false, nil, errors.Join(err, done())
		}
		opened = append(opened, in)
		if !in.HasSamples() {
			return nil, false, nil, errors.Join(in.Named(in.OnlySums()), done())
		}
		growing = growing || len(in.Unfinished()) > 0
		open := func(o stream.Options) (*stream.Source, error) { return in.Source(o) }
		list = append(list, page.Input{Name: in.Name, Open: open})
	}
	return list, growing, done, nil
}

// warnOnce prints a warning, each once.
func (v *viewed) warnOnce(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.said[err.Error()] {
		return
	}
	if v.said == nil {
		v.said = map[string]bool{}
	}
	v.said[err.Error()] = true
	v.warn(err)
}
