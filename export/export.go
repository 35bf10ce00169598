// Package export lets sessions write other formats than gotach's own when they
// end. Import it for its effect:
//
//	import _ "github.com/gotach/profiler/export"
//
// Then [profiler.Export] and the variable PROFILE_EXPORT work. Without the import
// the first is an error and the second a warning, and the program links none of
// the formats. The formats are those that "gotach formats" lists as written.
//
// The command makes the same files of a profile at any later time, so a program
// rarely needs this package:
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

// check returns why gotach cannot write a format.
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

// export writes the targets of all files together.
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
