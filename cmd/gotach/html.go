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
	"github.com/gotach/profiler/internal/source"
	"github.com/spf13/cobra"
)

func newHTML(e *env) *cobra.Command {
	var fl pageFlags
	var out string
	cmd := &cobra.Command{
		Use:   "html [-o PAGE.html] FILE... [-- FILE...]",
		Short: "Write an HTML page that shows a profile",
		Long: `Write one HTML file that shows a profile in a browser: time, flame graph, a row for each goroutine,
functions, lines, locks with their holders, requests and leaks. A selection in one restricts the
others. A drag over the time selects a range, a drag with Shift a second one to compare with it. The
key ? lists all keys. The page fetches nothing, so you can send it to others.

With -- the page compares the files before it with those after it. Flags come first then.

--max-size limits the page: until it fits, steps of time become longer and fewer goroutines have a row
of their own. The page says what it leaves out.

` + sourceHelp + `
The page contains lines of them; standard error says of how many files.

` + selectHelp,
		Example: `  gotach html app.tach                     # writes app.html
  gotach html app.*.tach -o app.html
  gotach html -o difference.html before.tach -- after.tach
  gotach html app.tach --since -60s --max-size 2MB -o app.html`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			sides, err := pageSides(cmd, args)
			if err != nil {
				return err
			}
			if out == "" {
				if out, err = pageName(sides); err != nil {
					return err
				}
			}
			if err := fl.set("html"); err != nil {
				return err
			}
			return makePage(e, sides, out, &fl)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the page to `FILE`; - is standard output")
	fl.add(cmd, "make the page at most this `SIZE`, such as 2MB")
	return cmd
}

// pageFlags are the flags of the commands that make a page, html and view, and the options that
// they set.
type pageFlags struct {
	size    string
	choice  selectFlags
	sources sourceFlags
	o       formats.Options
	po      page.Options
}

// add adds the flags to a command.
func (fl *pageFlags) add(cmd *cobra.Command, sizeHelp string) {
	f := cmd.Flags()
	f.StringVar(&fl.size, "max-size", "15MB", sizeHelp)
	f.BoolVar(&fl.sources.none, "no-source", false, "leave out lines of source files")
	fl.sources.add(cmd)
	fl.choice.add(cmd)
	fromFlags(cmd, &fl.o)
}

// set checks the flags and sets the options, except po.Source.
func (fl *pageFlags) set(cmd string) (err error) {
	if fl.po.MaxSize, err = parseSize(cmd, fl.size); err != nil {
		return err
	}
	return fl.choice.set(cmd, &fl.o)
}

// reader sets po.Source and returns what reads the source files, nil if none are wanted.
func (fl *pageFlags) reader(cmd string) (*source.Reader, error) {
	read, err := fl.sources.reader(cmd)
	if read != nil {
		fl.po.Source = read.Read
	}
	return read, err
}

// pageSides returns the files of each side. There are two if there is a --.
func pageSides(cmd *cobra.Command, args []string) ([][]string, error) {
	switch n := cmd.ArgsLenAtDash(); n {
	case -1:
		return [][]string{args}, nil
	case 0, len(args):
		return nil, usagef("%s: there must be files before -- and after it", cmd.Name())
	default:
		return [][]string{args[:n], args[n:]}, nil
	}
}

// pageName returns the name of the page of a file: that of app.tach is app.html in the present
// folder.
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

// makePage makes the page of one or two profiles. An existing file is replaced when the page is
// complete.
func makePage(e *env, sides [][]string, out string, fl *pageFlags) (err error) {
	for _, side := range sides {
		for _, in := range side {
			if sameFile(in, out) {
				return usagef("html: -o %s is the profile itself", out)
			}
		}
	}
	if out != "-" {
		if err := formats.Creatable(out); err != nil {
			return err
		}
	}
	read, err := fl.reader("html")
	if err != nil {
		return err
	}
	d, err := readPage(e, sides, nil, fl)
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
func readPage(e *env, sides [][]string, inputs []page.Input, fl *pageFlags) (d *page.Data, err error) {
	if len(inputs) == len(sides) {
		return page.Build(inputs, fl.po)
	}
	err = e.read("html", sides[len(inputs)], fl.o, func(in *formats.Input) error {
		if !in.HasSamples() {
			return in.OnlySums()
		}
		d, err = readPage(e, sides, append(inputs, page.Input{Name: in.Name, Files: typed(sides[len(inputs)]), Open: in.Source}), fl)
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
