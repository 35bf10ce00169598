//go:build linux && (amd64 || arm64)

package goruntime

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// GoDebug returns a GODEBUG setting as the runtime reads it once at the program's start: the
// linker's defaults first, then the environment. The last number counts.
func GoDebug(name string, environment []string) (value int32) {
	settings := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, kv := range info.Settings {
			if kv.Key == "DefaultGODEBUG" {
				settings = kv.Value
			}
		}
	}
	for _, v := range environment {
		// If GODEBUG is there several times, the runtime takes the first one.
		if s, ok := strings.CutPrefix(v, "GODEBUG="); ok {
			settings += "," + s
			break
		}
	}
	for s := range strings.SplitSeq(settings, ",") {
		if k, v, ok := strings.Cut(s, "="); ok && k == name {
			if n, err := strconv.ParseInt(v, 10, 32); err == nil {
				value = int32(n)
			}
		}
	}
	return value
}

// StartEnvironment returns the environment that the program was started with, which it
// may have changed since.
func StartEnvironment() []string {
	b, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return os.Environ()
	}
	return strings.Split(string(b), "\x00")
}
