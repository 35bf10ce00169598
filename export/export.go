// Package export makes sessions write other formats at Stop, in addition to gotach's own.
// Import it for its effect:
//
//	import _ "github.com/gotach/profiler/export"
//
// This enables [profiler.Export] and the variable PROFILE_EXPORT. Without the import the
// option causes an error and the variable a warning, and the program links none of the
// formats. "gotach formats" lists the formats that can be written.
//
// A program rarely needs this package, because the command can convert a profile later:
//
//	gotach convert app.tach -o app.pb.gz
//
// [profiler.Export]: https://pkg.go.dev/github.com/gotach/profiler#Export
package export

import (
	"fmt"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/hook"
	_ "github.com/gotach/profiler/internal/hook/linked"
)

func init() { hook.Exporting = &hook.Exporter{Check: check, Export: export} }

// check returns an error if gotach cannot write a format.
func check(format string) error {
	f, err := formats.ByName(format)
	if err != nil {
		return err
	}
	if !f.CanWrite() {
		return fmt.Errorf("gotach reads %s but does not write it", format)
	}
	return nil
}

// export reads the files as one profile, writes it to each target and calls fail for each
// error.
func export(files []string, targets []hook.Target, fail func(error)) {
	in, err := formats.OpenAll(files, formats.Options{})
	if err != nil {
		fail(fmt.Errorf("export: %w", err))
		return
	}
	defer in.Close()
	for _, t := range targets {
		if err := in.Convert(t.Path, t.Format, formats.Options{}); err != nil {
			fail(fmt.Errorf("export to %s: %w", t.Format, err))
		}
	}
}
