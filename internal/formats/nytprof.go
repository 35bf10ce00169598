package formats

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gotach/profiler/internal/formats/perlnytprof"
	"github.com/gotach/profiler/internal/formats/pynytprof"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/nytprof"
)

var perlNYTProf = &Format{
	Name:       "nytprof",
	Doc:        "profile of Perl's Devel::NYTProf, for nytprofhtml",
	Extensions: []string{".nytprof", "nytprof.out"},
	sniff:      nytprof.Sniff,
	open: func(s *source, o *Options) (content, error) {
		return &nytprofContent{source: s, o: o}, nil
	},
	write: func(t *target, in *Input, o *Options) error {
		if c, ok := in.content.(*nytprofContent); ok {
			return c.source.read(func(r io.Reader) error { return nytprof.Recode(t.W, r, o.Uncompressed) })
		}
		p, err := in.Profile()
		if err != nil {
			return err
		}
		return perlnytprof.Write(t.W, p, perlnytprof.Options{Uncompressed: o.Uncompressed, NoSource: o.NoSource, Source: o.Source})
	},
}

// nytprofContent is a file. It is read again for each use.
type nytprofContent struct {
	source *source
	data   *nytprof.Data // once loaded
	o      *Options
	cutOff error
}

// CutOff tells Input.CutOff.
func (c *nytprofContent) CutOff() error { return c.cutOff }

func (c *nytprofContent) Close() error { return nil }

func (c *nytprofContent) load() (*nytprof.Data, error) {
	if c.data != nil {
		return c.data, nil
	}
	err := c.source.read(func(r io.Reader) error {
		d, err := nytprof.Load(r)
		// What a killed perl has written is useful. A truncated file of gotach's is
		// not: its times are near the end.
		if c.o.Prefix && errors.Is(err, nytprof.ErrTruncated) && !d.Sampled {
			c.cutOff, err = err, nil
		}
		if err == nil {
			c.data = d
		}
		return err
	})
	return c.data, err
}

func (c *nytprofContent) Profile() (*profile.Profile, error) {
	d, err := c.load()
	if err != nil {
		return nil, err
	}
	return perlnytprof.Profile(d)
}

// Report adds to each sub how often it was called.
func (c *nytprofContent) Report(o profile.ReportOptions) (*profile.Report, error) {
	p, err := c.Profile()
	if err != nil {
		return nil, err
	}
	report, err := profile.New(p, o)
	if err != nil || o.By != "" && o.By != profile.ByFunction {
		return report, err
	}
	calls := make(map[string]int64)
	for _, s := range c.data.Subs {
		calls[perlnytprof.Function(c.data, s.Name)] += s.Count()
	}
	for i := range report.Rows {
		if n := calls[report.Rows[i].Name]; n > 0 {
			report.Rows[i].Called = &n
		}
	}
	return report, nil
}

// Dump writes a JSON array for each chunk, as the file is read.
func (c *nytprofContent) Dump(w io.Writer) error {
	return c.source.read(func(r io.Reader) error {
		return buffered(w, func(b *bufio.Writer) error {
			for chunk, err := range nytprof.NewReader(r).Chunks() {
				if err != nil {
					return err
				}
				if err := nytprof.DumpJSON(b, chunk); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (c *nytprofContent) Info() ([]Field, error) {
	d, err := c.load()
	if err != nil {
		return nil, err
	}
	p, err := perlnytprof.Profile(d)
	if err != nil {
		return nil, err
	}
	statements := int64(0)
	for _, f := range d.Files {
		for _, l := range f.Lines {
			statements += l.Count
		}
	}
	calls := int64(0)
	for _, s := range d.Subs {
		calls += s.Count()
	}
	list := profileInfo(perlNYTProf, p)
	list.number("files", "files", int64(len(d.Files)))
	list.number("subs", "subs", int64(len(d.Subs)))
	list.number("statements", "statements", statements)
	list.number("calls", "calls", calls)
	list.number("processes", "processes", int64(len(d.Processes)))
	for _, a := range d.Attributes {
		list.add("attribute_"+a.Key, a.Key, a.Value, a.Value)
	}
	for _, o := range d.Options {
		list.add("option_"+o.Key, "", o.Value, "")
	}
	return list, nil
}

// Verify also checks what Perl's own reader insists on.
func (c *nytprofContent) Verify() (found string, err error) {
	err = c.source.read(func(r io.Reader) error {
		v, err := nytprof.Verify(r)
		if err != nil {
			return err
		}
		found = fmt.Sprintf("%d chunks, %d statements, %d files, %d subs", v.Chunks, v.Statements, v.Files, v.Subs)
		if v.Inflated {
			found += ", compressed"
		}
		if len(v.Warnings) > 0 {
			found += "; Perl's tools will warn: " + strings.Join(v.Warnings, "; ")
		}
		return nil
	})
	return found, err
}

var pyNYTProf = &Format{
	Name:       "pynytprof",
	Doc:        "NYTProf dialect of Python's Pynytprof",
	Extensions: []string{".pynytprof"},
	sniff:      pynytprof.Sniff,
	open:       openSums(pynytprof.Read),
	write: writeSums(func(w io.Writer, p *profile.Profile, _ *Options) error {
		return pynytprof.Write(w, p)
	}),
}
