package formats

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// Join makes one profile of many, such as the files of a session that was rotated.
// It owns the inputs from then on and closes them.
//
// If all inputs keep their samples, the result does too. The files follow each other in the order
// of their start times. A file whose clock is not the wall clock follows the file before it. Equal
// ids in files of one process are one goroutine. Processes never share a goroutine: the ids of the
// second process are raised by 10^12, those of the third by twice that. If files of a session are
// missing, its goroutines were in "[not recorded]" during that time. If any input has only sums,
// the result is the sum of all.
func Join(list []*Input, o Options) *Input {
	if len(list) == 1 {
		return list[0]
	}
	in := &Input{Name: fmt.Sprintf("%s and %d more", list[0].Name, len(list)-1), Format: tachFormat, options: o}
	c := join(list)
	if _, ok := c.(joinedFiles); !ok {
		in.Format = list[0].Format
	}
	in.content = c
	return in
}

// inputs are those of a joined profile.
type inputs []*Input

// Close closes all.
func (l inputs) Close() (err error) {
	for _, in := range l {
		err = errors.Join(err, in.Close())
	}
	return err
}

// CutOff returns the errors of the inputs that are truncated.
func (l inputs) CutOff() (err error) {
	for _, in := range l {
		if e := in.CutOff(); e != nil {
			err = errors.Join(err, named(in, e))
		}
	}
	return err
}

func join(list inputs) content {
	for _, in := range list {
		if !in.HasSamples() {
			return summed{list}
		}
	}
	return joinedFiles{list}
}

// joinedFiles is many files that keep their samples.
type joinedFiles struct{ inputs }

// files returns the files for a stream.Source.
func (j joinedFiles) files() (list []stream.File, err error) {
	for _, in := range j.inputs {
		f, err := in.file()
		if err != nil {
			return nil, named(in, err)
		}
		list = append(list, f)
	}
	return list, nil
}

// Info returns what is known about all files together.
func (j joinedFiles) Info() ([]Field, error) {
	files, err := j.files()
	if err != nil {
		return nil, err
	}
	src, u, err := readUsage(files, &Options{})
	if err != nil {
		return nil, err
	}
	h, m := src.Header(), *src.Metadata()
	h.Samples, h.Threads = u.samples, uint32(u.goroutines)
	objects, err := src.Objects()
	if err != nil {
		return nil, err
	}
	m.Objects = slices.Collect(maps.Values(objects))
	l := streamInfo(h, &m, u)
	l.number("frames", "frames", int64(len(src.Frames())))
	l.number("files", "files", int64(len(files)))
	return l, nil
}

// Verify checks each file.
func (j joinedFiles) Verify() (string, error) {
	for _, in := range j.inputs {
		if _, err := in.Verify(); err != nil {
			return "", named(in, err)
		}
	}
	files, err := j.files()
	if err != nil {
		return "", err
	}
	found, err := verifyFiles(files, &Options{})
	return fmt.Sprintf("%d files, %s", len(files), found), err
}

func named(in *Input, err error) error { return Named(in.Name, err) }

// Named puts a file's name before an error, unless the error begins with it.
func Named(name string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), name+": ") {
		return err
	}
	if e, ok := err.(*os.PathError); ok {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Named puts the input's name before an error, unless the error begins with it or with the name of
// one of the files that were joined.
func (in *Input) Named(err error) error {
	if c, ok := in.content.(interface{ names(error) bool }); ok && err != nil && c.names(err) {
		return err
	}
	return Named(in.Name, err)
}

// names reports whether an error begins with the name of one of the inputs.
func (l inputs) names(err error) bool {
	return slices.ContainsFunc(l, func(in *Input) bool { return strings.HasPrefix(err.Error(), in.Name+": ") })
}

// summed is the sum of profiles that are sums.
type summed struct{ inputs }

func (s summed) Profile() (*profile.Profile, error) {
	var list []*profile.Profile
	for _, in := range s.inputs {
		p, err := in.Profile()
		if err != nil {
			return nil, named(in, err)
		}
		list = append(list, p)
	}
	return profile.Sum(list), nil
}

// OpenAll opens profiles and joins them. A file that is named twice counts once.
// The path - is Options.Stdin, if that is set. Errors and warnings begin with the
// file's name. The tables of very many files are not kept in memory.
func OpenAll(paths []string, o Options) (*Input, error) {
	var list inputs
	var seen []os.FileInfo
	var damaged []error
	o.Damaged = once(o.Damaged)
	for _, path := range paths {
		if fi, err := os.Stat(path); err == nil {
			if slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(fi, other) }) {
				o.warn(fmt.Errorf("%s: named twice, read once", path))
				continue
			}
			seen = append(seen, fi)
		}
		in, err := openOne(path, o)
		if err == nil && o.Samples && !in.HasSamples() {
			err = errors.Join(Named(in.Name, in.OnlySums()), in.Close())
		}
		if err != nil {
			if gone := Gone(path, paths, err); gone != nil && (len(list) > 0 || path != paths[len(paths)-1]) {
				o.warn(gone)
				continue
			}
			if o.Damaged == nil || len(paths) == 1 || errors.Is(err, fs.ErrNotExist) {
				return nil, errors.Join(err, list.Close())
			}
			damaged = append(damaged, err)
			continue
		}
		if c, ok := in.content.(interface{ Compact() }); ok && (o.Many || len(paths) > stream.Many) {
			c.Compact()
		}
		list = append(list, in)
	}
	switch {
	case len(list) == 0 && len(damaged) == 0:
		return nil, errors.New("no files")
	case len(list) == 0:
		return nil, errors.Join(damaged...)
	}
	for _, err := range damaged {
		o.Damaged(err)
	}
	return Join(list, o), nil
}

// Gone returns a warning if a file cannot be opened because a rotation has removed it since its
// name was found: it is not there, and its name is that of another one in the list but for a
// number. Otherwise it returns nil.
func Gone(path string, paths []string, err error) error {
	name, number := unnumbered(path)
	if !number || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, other := range paths {
		if same, _ := unnumbered(other); other != path && same == name {
			return fmt.Errorf("%s: removed since, as rotation does; the other files are read", path)
		}
	}
	return nil
}

// unnumbered returns the path without the number that rotation puts before the extension: app.tach
// for app.12.tach.
func unnumbered(path string) (before string, number bool) {
	ext := filepath.Ext(path)
	before = strings.TrimSuffix(path, ext)
	dot := strings.LastIndexByte(before, '.')
	if _, err := strconv.ParseUint(before[dot+1:], 10, 31); dot < 0 || err != nil {
		return path, false
	}
	return before[:dot] + ext, true
}

// once returns a function that calls use once for each text of an error. use may be nil.
func once(use func(error)) func(error) {
	if use == nil {
		return nil
	}
	said := map[string]bool{}
	return func(err error) {
		if !said[err.Error()] {
			said[err.Error()] = true
			use(err)
		}
	}
}

// stdinName is what standard input is called in messages.
const stdinName = "standard input"

// openOne opens one of the files of OpenAll.
func openOne(path string, o Options) (in *Input, err error) {
	name := path
	if path == "-" && o.Stdin != nil {
		name = stdinName
	}
	one := o
	one.Warn = func(err error) { o.warn(Named(name, err)) }
	if name == stdinName {
		in, err = OpenReader(o.Stdin, name, one)
	} else {
		in, err = Open(path, one)
	}
	if err != nil {
		return nil, Named(name, err)
	}
	return in, nil
}
