package gotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/formats/tach"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// ErrNone is the error of Run if no test was profiled.
var ErrNone = errors.New("no package was profiled")

// merge makes one profile of those of all processes.
func (r *run) merge(res *Result) error {
	found, err := filepath.Glob(filepath.Join(r.work, "files", "*.tests"))
	if err != nil {
		return err
	}
	res.Without = r.without
	packages := map[string]bool{}
	tests := map[[2]string]bool{}
	var files []string
	for _, name := range found {
		p, err := readProcess(strings.TrimSuffix(name, ".tests"))
		if err != nil {
			return err
		}
		if exists(p.path + ".tach") {
			file, names, err := p.rewrite()
			if err == nil {
				files = append(files, file)
				packages[p.importPath] = true
				for name := range names {
					tests[[2]string{p.importPath, name}] = true
				}
			} else {
				p.errors = append(p.errors, err.Error())
			}
		}
		for _, text := range p.errors {
			res.Without = append(res.Without, p.importPath+": "+text)
		}
	}
	res.Packages, res.Tests = len(packages), len(tests)
	slices.Sort(res.Without)
	if len(files) == 0 {
		return ErrNone
	}
	// Who interrupts the tests wants to know what they did.
	ctx := context.WithoutCancel(r.ctx)
	in, err := formats.OpenAll(files, formats.Options{Context: ctx})
	if err != nil {
		return err
	}
	defer in.Close()
	return in.Convert(r.o.Output, "tach", formats.Options{Context: ctx})
}

// rewrite writes the profile of a process with labels. It returns the path and the tests.
func (p *process) rewrite() (_ string, tests map[string]bool, err error) {
	in, err := reader.Open(p.path + ".tach")
	if err != nil {
		return "", nil, fmt.Errorf("its profile cannot be read: %w", err)
	}
	defer in.Close()
	l, err := newLabelled(in, p.importPath)
	if err != nil {
		return "", nil, err
	}
	path := p.path + ".labelled.tach"
	out, err := os.Create(path)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	src, err := stream.New([]stream.File{{Stream: l}}, stream.Options{Markers: true, Objects: true})
	if err != nil {
		return "", nil, err
	}
	return path, l.tests, tach.Write(out, src, tach.Options{Layout: tachyon.Document})
}
