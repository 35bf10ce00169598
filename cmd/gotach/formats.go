package main

import (
	"bytes"
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
		Long: `List the formats that gotach reads and writes. A format keeps one of:
  samples  each sample with its time
  sums     no times, so it cannot be converted to a format of samples
  runs     stretches of samples of a goroutine with one stack, for viewers and
           databases; goroutines that are too many for a viewer are merged by
           the place that created them`,
		Example: `  gotach formats`,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return listFormats(e) },
	}
}

func listFormats(e *env) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
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
	if err := w.Flush(); err != nil {
		return err
	}
	return e.print(b.Bytes())
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}
