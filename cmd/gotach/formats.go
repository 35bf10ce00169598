package main

import (
	"strings"
	"text/tabwriter"

	_ "github.com/gotach/profiler/cmd/gotach/internal/parquet" // adds the format
	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

func newFormats(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "formats",
		Short: "List the formats that gotach reads and writes",
		Long: `List the formats that gotach reads and writes. A format that keeps samples has the
time of each sample. A format that keeps sums has no times, so it cannot be converted
to a format that keeps samples. A format that keeps runs is made of samples for a viewer
or a database: a run is a stretch of samples of a goroutine with one stack. If there are too
many goroutines for a viewer, those that were created in the same place are shown together.`,
		Example: `  gotach formats`,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return listFormats(e) },
	}
}

func listFormats(e *env) error {
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	printf(w, "NAME\tREAD\tWRITE\tKEEPS\tFILES\tDESCRIPTION\n")
	for _, f := range formats.All() {
		keeps, files := "sums", strings.Join(f.Extensions, " ")
		switch {
		case f.Series:
			keeps = "samples"
		case f.Runs:
			keeps = "runs"
		}
		if f.Directory {
			files = strings.TrimSpace("a directory " + files)
		}
		printf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, yes(f.CanRead()), yes(f.CanWrite()), keeps, files, f.Doc)
	}
	return w.Flush()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}
