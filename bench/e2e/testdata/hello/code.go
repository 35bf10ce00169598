//go:build code

package main

import (
	"log/slog"
	"os"

	"github.com/gotach/profiler"
)

func init() {
	starts["code"] = func() func() error {
		slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
		return profiler.Start(profiler.Export("pprof", "code.pb.gz")).Stop
	}
}
