package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/page"
	"github.com/spf13/cobra"
)

func newView(e *env) *cobra.Command {
	var fl pageFlags
	var noOpen bool
	cmd := &cobra.Command{
		Use:   "view FILE|DIR... [-- FILE|DIR...]",
		Short: "Show a profile in a browser, even while it is being written",
		Long: `Show the page of gotach html in a browser, from a server on this computer. Only who knows the printed
address sees it. The command runs until Ctrl-C.

DIR means all .tach files in it, also later ones. While a profile is being written, the page shows
what is new every few seconds. Of files that take long to read, the page first shows some, spread over
the time, and how far the reading is. Where it leaves something out, a selected range has a link to a
page of that range in detail. Locks, requests and leaks are those of the selected range.

With -- the page compares the profiles before it with those after it. Flags come first then.

` + sourceHelp + `

` + selectHelp,
		Example: `  gotach view app.tach
  gotach view --no-open /var/lib/app/profiles
  gotach view before.tach -- after.tach`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			sides, err := pageSides(cmd, args)
			if err != nil {
				return err
			}
			if slices.Contains(args, "-") {
				return usagef("view: standard input can be read only once; use gotach html")
			}
			if err := fl.set("view"); err != nil {
				return err
			}
			if err := checkFrom(&fl.o); err != nil {
				return err
			}
			if _, err := fl.reader("view"); err != nil {
				return err
			}
			return view(e, &viewed{sides: sides, o: fl.o}, fl.po, !noOpen)
		},
	}
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the address only, open no browser")
	fl.add(cmd, "send the page at most this `SIZE` of data at once, such as 2MB")
	return cmd
}

// view serves the page until the user interrupts.
func view(e *env, v *viewed, po page.Options, open bool) error {
	v.warn = e.warn
	if err := v.check(); err != nil {
		return err
	}
	// One reading takes up to 200 MB, another one may wait half-way. Without these limits there is
	// twice as much.
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(350 << 20)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	s := page.NewServer(e.ctx, page.ServerOptions{Options: po, Title: v.title(), Open: v.open, Version: v.version})
	defer s.Close()
	local := page.NewLocal(l, s)
	server := &http.Server{Handler: local, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	printf(e.stdout, "%s\n", local.URL())
	printf(e.stderr, "gotach: Ctrl-C ends this\n")
	if open {
		if err := openBrowser(local.URL()); err != nil {
			printf(e.stderr, "gotach: open the address in a browser; none was opened: %s\n", err)
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
