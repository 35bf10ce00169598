//go:build profiled

package main

import "github.com/gotach/profiler"

func init() { starts["profiled"] = func() func() error { return profiler.Start().Stop } }
