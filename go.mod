module github.com/gotach/profiler

go 1.25.0

require (
	github.com/felixge/fgprof v0.9.5
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	github.com/klauspost/compress v1.20.3
	golang.org/x/sys v0.47.0
	pgregory.net/rapid v1.3.0
)
