package main

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

func newHTML(e *env) *cobra.Command {
	var o formats.Options
	var po page.Options
	var out, size string
	var choice selectFlags
	var sources sourceFlags
	cmd := &cobra.Command{
		Use:   "html [-o PAGE.html] FILE... [-- FILE...]",
		Short: "Make a page to look at a profile in a browser",
		Long: `Make one HTML file that shows a profile in a browser: time, flame graph, a row for each
goroutine, functions, lines, locks with their holders, requests and leaks. What is selected in one
restricts the others. A drag over the time selects a range, a drag with Shift a second one to compare it
with. The key ? lists all keys. The page fetches nothing, so it can be sent to others.

With -- the page shows what is different between the files before it and those after it. Flags come first then.

The page is at most as large as --max-size says. Until it is, steps of time become longer and fewer
goroutines have a row of their own; the page says what it leaves out.

` + sourceHelp + `
Standard error says of how many files the page has lines.

` + selectHelp,
		Example: `  gotach html app.tach                     # writes app.html
  gotach html app.*.tach -o app.html
  gotach html -o difference.html before.tach -- after.tach
  gotach html app.tach --since -60s --max-size 2MB -o app.html`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			sides := [][]string{args}
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				if n == 0 || n == len(args) {
					return usagef("html: there must be files before -- and after it")
				}
				sides = [][]string{args[:n], args[n:]}
			}
			var err error
			if out == "" {
				if out, err = pageName(sides); err != nil {
					return err
				}
			}
			if po.MaxSize, err = parseSize("html", size); err != nil {
				return err
			}
			if err := choice.set("html", &o); err != nil {
				return err
			}
			return makePage(e, sides, out, o, po, &sources)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "write the page to `FILE`; - is standard output")
	f.StringVar(&size, "max-size", "15MB", "make the page at most this `SIZE`, such as 2MB")
	f.BoolVar(&sources.none, "no-source", false, "leave out lines of source files")
	sources.add(cmd)
	choice.add(cmd)
	fromFlags(cmd, &o)
	return cmd
}

// pageName returns the name of the page of a file: that of app.tach is app.html in the present folder.
func pageName(sides [][]string) (string, error) {
	in := sides[0][0]
	name := strings.TrimSuffix(filepath.Base(in), filepath.Ext(in)) + ".html"
	switch {
	case len(sides) > 1 || len(sides[0]) > 1 || in == "-":
		return "", usagef("html: no output; set it with -o PAGE.html")
	case exists(name):
		return "", usagef("html: %s exists; -o %s replaces it", name, name)
	}
	return name, nil
}

// parseSize returns a number of bytes: 15MB is 15,000,000.
func parseSize(cmd, text string) (int64, error) {
	number, unit := strings.TrimSpace(text), int64(1)
	for _, u := range []struct {
		name string
		size int64
	}{{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}} {
		if rest, ok := strings.CutSuffix(strings.ToUpper(number), u.name); ok {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0) || n*float64(unit) > 1e15 {
		return 0, usagef("%s: --max-size %q: it must be like 15MB", cmd, text)
	}
	return int64(n * float64(unit)), nil
}

// makePage makes the page of one or two profiles. An existing file is replaced when the page is complete.
func makePage(e *env, sides [][]string, out string, o formats.Options, po page.Options, sources *sourceFlags) (err error) {
	for _, side := range sides {
		for _, in := range side {
			if sameFile(in, out) {
				return usagef("html: -o %s is the profile itself", out)
			}
		}
	}
	read, err := sources.reader("html")
	if err != nil {
		return err
	}
	if read != nil {
		po.Source = read.Read
	}
	d, err := readPage(e, sides, nil, o, po)
	if err != nil {
		return err
	}
	d.Head.Title = (&viewed{sides: sides}).title()
	defer func() {
		if err == nil {
			e.shown(read, out)
		}
	}()
	if out == "-" {
		return d.WriteHTML(e.stdout.data())
	}
	err = formats.Replace(out, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<20)
		return errors.Join(d.WriteHTML(b), b.Flush())
	})
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err // its path is that of a temporary file
	}
	return named(out, err)
}

// readPage opens the files of each side, and reads them when all are open.
func readPage(e *env, sides [][]string, inputs []page.Input, o formats.Options, po page.Options) (d *page.Data, err error) {
	if len(inputs) == len(sides) {
		return page.Build(inputs, po)
	}
	err = e.read("html", sides[len(inputs)], o, func(in *formats.Input) error {
		if !in.HasSamples() {
			return in.OnlySums()
		}
		open := func(o stream.Options) (*stream.Source, error) { return in.Source(o) }
		d, err = readPage(e, sides, append(inputs, page.Input{Name: in.Name, Files: typed(sides[len(inputs)]), Open: open}), o, po)
		return err
	})
	return d, err
}

// sameFile reports whether two paths are of one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}
