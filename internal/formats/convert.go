package formats

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// A target is where a format writes. Which field is set depends on the format.
type target struct {
	Name string    // of the file; "" if it has none
	W    io.Writer // one file, from its beginning to its end
	Dir  string    // formats of several files: an existing directory
}

// seekable calls write with a file that can seek: the target itself if it is one,
// otherwise a temporary file that is copied to the target afterwards.
func (t *target) seekable(write func(io.WriteSeeker) error) error {
	if f, ok := t.W.(*os.File); ok {
		if fi, err := f.Stat(); err == nil && fi.Mode().IsRegular() {
			return write(f)
		}
	}
	f, err := os.CreateTemp("", "gotach-*.tach")
	if err != nil {
		return err
	}
	if os.Remove(f.Name()) != nil { // now, where that is possible: nothing is left then if the process is killed
		defer os.Remove(f.Name())
	}
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(t.W, f)
	return err
}

// TargetFormat returns the format in which a path is to be written: the one named to
// or, if that is empty, the one that the extension tells.
func TargetFormat(out, to string) (*Format, error) {
	if to != "" {
		return ByName(to)
	}
	if f := byExtension(out); f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("the name %s does not tell a format", out)
}

// Convert writes the profile to a path: in the format named to or, if that is empty,
// in the one that the path's extension tells. For formats of several files, the path
// becomes a directory. The file appears when it is complete, and is private to its
// owner. After an error there is no file, or the one that was there before.
func (in *Input) Convert(out, to string, o Options) error {
	f, err := TargetFormat(out, to)
	if err != nil {
		return err
	}
	if err := in.check(f); err != nil {
		return err
	}
	if f.Directory {
		_, before := os.Stat(out)
		if err := os.MkdirAll(out, 0o700); err != nil {
			return err
		}
		err := f.write(&target{Dir: out}, in, &o)
		if err != nil && before != nil {
			_ = os.Remove(out) // if it is empty
		}
		return err
	}
	return Replace(out, func(w io.Writer) error { return in.write(w, out, f, o) })
}

// Write writes the profile in the format named to. Formats of several files are an
// error.
func (in *Input) Write(w io.Writer, to string, o Options) error {
	f, err := ByName(to)
	if err != nil {
		return err
	}
	if err := in.check(f); err != nil {
		return err
	}
	if f.Directory {
		return fmt.Errorf("%s is a format of several files: give it a directory", f.Name)
	}
	return in.write(w, "", f, o)
}

func (in *Input) write(w io.Writer, name string, f *Format, o Options) error {
	if _, ok := w.(*os.File); ok && f.Series {
		return f.write(&target{Name: name, W: w}, in, &o)
	}
	b := bufio.NewWriterSize(w, 64<<10)
	if err := f.write(&target{Name: name, W: b}, in, &o); err != nil {
		return err
	}
	return b.Flush()
}

// check returns an error if in cannot be written as f.
func (in *Input) check(f *Format) error {
	if f.write == nil {
		return fmt.Errorf("gotach reads %s files but does not write them", f.Name)
	}
	if !in.HasSamples() && (f.Series || f.Runs) {
		return fmt.Errorf("cannot make a %s file of it: that needs each sample and its time, and a %s file has only sums", f.Name, in.Format.Name)
	}
	if f.Series && in.selection() != nil {
		return fmt.Errorf("cannot make a %s file of a selection: the format has every sample; formats of sums, such as pprof, can have one", f.Name)
	}
	return nil
}

// encoded calls f with an encoder that writes a line of JSON to w for each value.
func encoded(w io.Writer, f func(*json.Encoder) error) error {
	return buffered(w, func(b *bufio.Writer) error {
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		return f(e)
	})
}

// buffered calls f with a buffered writer. What f wrote before an error is written
// too.
func buffered(w io.Writer, f func(*bufio.Writer) error) error {
	b := bufio.NewWriterSize(w, 64<<10)
	return errors.Join(f(b), b.Flush())
}
