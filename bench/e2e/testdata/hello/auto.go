//go:build auto

package main

import "github.com/gotach/profiler/auto"

func init() { starts["auto"] = func() func() error { return auto.Stop } }
