package formats

import (
	"errors"
	"fmt"
	"io"

	"github.com/gotach/profiler/internal/formats/jsonl"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// An Input is an opened profile of any format.
type Input struct {
	Name   string // of the file, for messages
	Format *Format

	content content
	options Options
	profile *profile.Profile
	warned  bool // see strange
}

// Open opens a profile. Its format is that of o.From or, if that is empty, what the
// content tells.
func Open(path string, o Options) (*Input, error) {
	s, err := newSource(path)
	if err != nil {
		return nil, err
	}
	return open(s, o)
}

// OpenReader opens a profile that is read from r. The name is for messages. Formats
// of several files are an error.
func OpenReader(r io.Reader, name string, o Options) (*Input, error) {
	s, err := streamSource(r, name)
	if err != nil {
		return nil, err
	}
	return open(s, o)
}

func open(s *source, o Options) (in *Input, err error) {
	in = &Input{Name: s.Name, options: o}
	s.o = &in.options
	if o.From != "" {
		in.Format, err = ByName(o.From)
	} else {
		in.Format, err = s.format()
	}
	if err != nil {
		return nil, err
	}
	if in.Format.open == nil {
		return nil, fmt.Errorf("gotach writes %s files but does not read them", in.Format.Name)
	}
	if in.content, err = in.Format.open(s, &in.options); err != nil {
		return nil, err
	}
	return in, nil
}

// Close closes the file.
func (in *Input) Close() error { return in.content.Close() }

// Unfinished returns the names of the files whose writers have not finished them.
func (in *Input) Unfinished() (names []string) {
	switch c := in.content.(type) {
	case interface{ Unfinished() bool }:
		if c.Unfinished() {
			names = append(names, in.Name)
		}
	case joinedFiles:
		for _, in := range c.inputs {
			names = append(names, in.Unfinished()...)
		}
	}
	return names
}

// Profile returns the profile added up, with all goroutines and their labels.
func (in *Input) Profile() (_ *profile.Profile, err error) {
	if in.profile == nil {
		in.profile, err = in.sums(profile.Detail{Goroutines: true, Labels: true})
	}
	return in.profile, err
}

// sums returns the profile added up. Formats that have only sums give all they have.
func (in *Input) sums(d profile.Detail) (*profile.Profile, error) {
	if c, ok := in.content.(sum); ok {
		p, err := c.Profile()
		if err != nil {
			return nil, err
		}
		if sel := in.selection(); sel != nil {
			if sel.Timed() {
				return nil, in.OnlySums()
			}
			p = p.Select(sel)
		}
		return p, nil
	}
	src, err := in.Source(stream.Options{Labels: d.Labels})
	if err != nil {
		return nil, err
	}
	return profile.FromStream(src, d)
}

// Source returns the samples of the file or the files, for sums and analyses. It is an error if
// the format has only sums. The Source lives as long as in; it calls Options.Progress and ends
// when Options.Context does.
func (in *Input) Source(o stream.Options) (*stream.Source, error) {
	files, err := in.files()
	if err != nil {
		return nil, err
	}
	o.Many = in.options.Many
	o.Context, o.Select, o.Damaged = in.options.Context, in.selection(), in.options.Damaged
	if o.Progress == nil {
		o.Progress = in.options.Progress
	}
	src, err := stream.New(files, o)
	if err == nil {
		in.strange(src.Strange())
	}
	return src, err
}

// strange warns of files that say nothing of a session although others do.
func (in *Input) strange(names []string) {
	if len(names) == 0 || in.warned {
		return
	}
	in.warned = true
	others := ""
	if len(names) > 1 {
		others = fmt.Sprintf(" and %d more", len(names)-1)
	}
	in.options.warn(fmt.Errorf("%s%s: not recorded by gotach, so what sessions say is left out for all files: which waits are idle, which samples count for nothing, [not seen]", names[0], others))
}

func (in *Input) files() ([]stream.File, error) {
	if j, ok := in.content.(joinedFiles); ok {
		return j.files()
	}
	f, err := in.file()
	f.Name = ""
	return []stream.File{f}, err
}

// file returns a single file.
func (in *Input) file() (f stream.File, err error) {
	c, ok := in.content.(series)
	if !ok {
		return f, in.OnlySums()
	}
	f.Name = in.Name
	f.Stream, err = c.Series()
	return f, err
}

// HasSamples reports whether the file keeps every sample with its time, so that Source works.
func (in *Input) HasSamples() bool {
	switch in.content.(type) {
	case joinedFiles, series:
		return true
	}
	return false
}

// HasSession reports whether gotach's sampler recorded the samples.
func (in *Input) HasSession() bool {
	if !in.HasSamples() {
		return false
	}
	src, err := in.Source(stream.Options{})
	return err == nil && src.Metadata().Session != nil
}

// Instant reports whether the profile is that of one instant (tachyon.Session.Instant).
func (in *Input) Instant() bool {
	if !in.HasSamples() {
		return false
	}
	src, err := in.Source(stream.Options{})
	return err == nil && src.Metadata().Session != nil && src.Metadata().Session.Instant
}

// KnowsMore reports whether Report tells more about functions than samples and sums do.
func (in *Input) KnowsMore() bool {
	_, ok := in.content.(reporter)
	return ok && in.selection() == nil
}

// OnlySums is the error of what needs samples.
func (in *Input) OnlySums() error {
	return fmt.Errorf("a %s file has only sums, not each sample and its time", in.Format.Name)
}

// selection returns the selection of the options, nil if it selects all.
func (in *Input) selection() *stream.Selection {
	if in.options.Select.Empty() {
		return nil
	}
	return in.options.Select
}

// all returns every sample, also those that stand for no time. It is an error if the format has
// only sums.
func (in *Input) all() (*stream.Source, error) {
	if in.HasSamples() && in.selection() != nil {
		return nil, errors.New("this needs all samples, not a selection")
	}
	return in.Source(stream.Options{Markers: true, Objects: true})
}

// Report makes a report. Only a report by goroutine keeps the records of goroutines apart. Formats
// that know more about a function than its times add that to its row.
func (in *Input) Report(o profile.ReportOptions) (*profile.Report, error) {
	if c, ok := in.content.(reporter); ok && in.selection() == nil {
		return c.Report(o)
	}
	p, err := in.sums(profile.Detail{Goroutines: o.By == profile.ByGoroutine})
	if err != nil {
		return nil, err
	}
	return profile.New(p, o)
}

// CutOff returns an error if the file is truncated. Other methods must have read it
// before, with Options.Prefix, under which truncation is no error of theirs.
func (in *Input) CutOff() error {
	if c, ok := in.content.(interface{ CutOff() error }); ok {
		return c.CutOff()
	}
	return nil
}

// Dump writes everything in the file as JSON lines. Formats that keep samples give a
// line for each sample; for the others see their packages.
func (in *Input) Dump(w io.Writer) error {
	switch c := in.content.(type) {
	case dumper:
		return c.Dump(w)
	case joinedFiles, series:
		src, err := in.all()
		if err != nil {
			return err
		}
		return jsonl.Write(w, src)
	}
	p, err := in.Profile()
	if err != nil {
		return err
	}
	return dumpRecords(w, p)
}

// Info returns what is known about the file as a whole.
func (in *Input) Info() ([]Field, error) {
	if c, ok := in.content.(informer); ok {
		return c.Info()
	}
	p, err := in.Profile()
	if err != nil {
		return nil, err
	}
	return profileInfo(in.Format, p), nil
}

// Verify checks all of the file that can be checked. It returns a line that says what
// is in the file.
func (in *Input) Verify() (string, error) {
	if c, ok := in.content.(verifier); ok {
		return c.Verify()
	}
	p, err := in.Profile()
	if err != nil {
		return "", err
	}
	return verified(p), nil
}
