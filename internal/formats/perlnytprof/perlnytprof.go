// Package perlnytprof converts between a profile and package nytprof's data, as Perl's tools show
// them well: a function is a sub, a sample a statement that took the sample's wall time.
//
// Files, each of which uses only those after it: perlnytprof.go; export.go with source.go and
// extent.go, from a profile; import.go with paths.go, to a profile; names.go.
package perlnytprof

import (
	"io"

	"github.com/gotach/profiler/internal/profile"
)

// Options are choices for writing.
type Options struct {
	Uncompressed bool // no zlib
	NoSource     bool // leave out the texts of source files; Perl's tools then look for the files themselves
	// Source returns the text of a source file, nil to leave it out. It gets all frames that are in
	// the file: the profile may be a stranger's, and what is read here others will see. Nil leaves
	// out all texts.
	Source func(file string, in []profile.Frame) []byte
}

// Write writes a profile for Perl's tools.
func Write(w io.Writer, p *profile.Profile, o Options) error {
	return fromProfile(p, o).Write(w, o.Uncompressed)
}
