package push

import (
	"context"
	"errors"
	"net/url"

	"github.com/gotach/profiler/cmd/gotach/internal/parquet"
	"github.com/gotach/profiler/internal/stream"
)

// tablesTarget writes files into a directory of tables.
type tablesTarget struct {
	dir string
	o   parquet.Options
}

// NewTables returns a target that writes profiles as tables into a directory; see package parquet.
// The files of a profile have names that are the same when it is written again.
func NewTables(to *url.URL, o TargetOptions) (Target, error) {
	dir := to.Opaque
	if dir == "" {
		dir = to.Path
	}
	if dir == "" || to.Host != "" {
		return nil, errors.New("name a directory: parquet:/var/lib/profiles/tables")
	}
	t := &tablesTarget{dir: dir}
	for _, kv := range o.Resource {
		switch kv[0] {
		case "service.name":
			t.o.Service = kv[1]
		case "service.version":
			t.o.Version = kv[1]
		}
	}
	return t, nil
}

// Limits implements Target.
func (t *tablesTarget) Limits() Limits { return Limits{} }

// Close implements Target.
func (t *tablesTarget) Close() error { return nil }

// Send implements Target.
func (t *tablesTarget) Send(ctx context.Context, b *Batch) error {
	for _, f := range b.Files {
		o := t.o
		if f.Session == nil { // the profile does not say which one it is
			o.Name = f.ID.String()
		}
		so := parquet.SourceOptions
		so.Context = ctx
		if err := f.Read(so, func(src *stream.Source) error {
			_, err := parquet.Write(t.dir, src, o)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
