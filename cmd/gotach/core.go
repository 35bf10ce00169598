package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotach/profiler/cmd/gotach/internal/attach"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/files"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
)

// isCore reports whether a file is what a process has left when it ended: an ELF file of type 4.
func isCore(path string) bool { return elfType(path) == elf.ET_CORE }

// elfType returns the type of an ELF file, elf.ET_NONE of another file.
func elfType(path string) elf.Type {
	f, _, err := files.Open(path)
	if err != nil {
		return elf.ET_NONE
	}
	defer f.Close()
	var head [18]byte
	if _, err = io.ReadFull(f, head[:]); err != nil || string(head[:4]) != elf.ELFMAG {
		return elf.ET_NONE
	}
	return elf.Type(binary.LittleEndian.Uint16(head[16:]))
}

// isProgram reports whether a file is an executable of Linux.
func isProgram(path string) bool {
	t := elfType(path)
	return t == elf.ET_EXEC || t == elf.ET_DYN
}

// openCore opens a core, which may be followed by its executable.
func openCore(paths []string) (*attach.Process, error) {
	switch {
	case len(paths) > 2:
		return nil, usagef("%s is a core file; it is read alone, or with its executable", paths[0])
	case len(paths) == 2:
		return attach.OpenCore(paths[0], paths[1])
	}
	return attach.OpenCore(paths[0], "")
}

// openAll opens files as one profile, or a core as that of one instant.
func openAll(paths []string, o formats.Options) (in *formats.Input, err error) {
	if o.From == "" && len(paths) == 2 && isCore(paths[1]) && !isCore(paths[0]) {
		return nil, usagef("%s is a core file; its executable comes after it", paths[1])
	}
	if o.From != "" || len(paths) == 0 || !isCore(paths[0]) {
		return formats.OpenAll(paths, o)
	}
	p, err := openCore(paths)
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(paths[0])
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gotach-core")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // the profile stays open
	path := filepath.Join(dir, p.Name+".tach")
	if err := p.Instant(path, fi.ModTime()); err != nil {
		return nil, formats.Named(paths[0], err)
	}
	if in, err = formats.Open(path, o); err == nil {
		in.Name = paths[0]
	}
	return in, err
}

// instantScreen prints what report has of a profile of one instant if nothing else is asked for:
// what goroutines did, where, and who has what they wait for.
func (e *env) instantScreen(in *formats.Input, paths []string, ao report.Options, o formats.Options) error {
	src, err := in.Source(ao.Stream())
	if err != nil {
		return err
	}
	p, err := report.NewProfile(src, ao)
	if err != nil {
		return err
	}
	s, err := samples(in, stream.Options{Objects: true, Labels: true, Creators: true})
	if err != nil {
		return err
	}
	l, err := locks.Find(s, locks.Options{Channels: true, Source: source.Usual().Read})
	if err != nil {
		return err
	}
	if err := e.selected(paths, &o); err != nil {
		return err
	}
	e.barDone()
	t, b := (*reportTable)(nil), bytes.Buffer{}
	for _, x := range []struct {
		of *profile.Profile
		by profile.By
	}{{p, profile.ByState}, {p, profile.ByBlocked}, {p.OnlyCPU(), profile.ByFunction}} {
		ro := profile.ReportOptions{By: x.by, Top: instantRows}
		r, err := profile.New(x.of, ro)
		if err != nil {
			return err
		}
		r.Rows = slices.DeleteFunc(r.Rows, func(row profile.Row) bool { return row.Self == 0 }) // a caller of what ran
		first := t == nil
		if t = e.newTable(in, r, ro, ao); first {
			t.choice = o.Select
			t.header()
		}
		if len(r.Rows) > 0 {
			t.line("")
			t.rows()
		}
		b.Write(t.b.Bytes())
	}
	held := lockTable{paint: t.paint, width: t.width, top: instantRows, instant: true}
	held.section("LOCK", slices.DeleteFunc(l.Group().Locks, func(x locks.Lock) bool { return !x.LikeLock() }))
	b.Write(held.b.Bytes())
	printf(&b, "\n%s\n", t.paint.bold("WHAT TO TYPE NEXT"))
	width := len("report  --by function --idle") + len(typed(paths))
	for _, h := range []hint{
		{"stacks %s --grouped", "the calls of all goroutines"},
		{"waits GOROUTINE|FUNC %s", "what goroutines wait for, and what that waits for"},
		{"locks %s", "channels too, and who is on the other side"},
		{"report %s --by function --idle", "every function and wait"},
	} {
		printf(&b, "  gotach %-*s  %s\n", width, strings.Replace(h.command, "%s", typed(paths), 1), t.paint.dim("# "+h.what))
	}
	return e.print(b.Bytes())
}

// instantRows is how many rows a table of instantScreen has at most.
const instantRows = 12

// timed are the commands that say how long something took.
var timed = []string{"why", "leaks", "requests", "html", "diff"}

// instantOnly returns an error if a profile is that of one instant and the command says how long
// something took.
func instantOnly(in *formats.Input, what string) error {
	if slices.Contains(timed, what) && in.Instant() {
		return in.Named(errors.New("it is of one instant, and has no times; gotach report, stacks, locks and waits read it"))
	}
	return nil
}
