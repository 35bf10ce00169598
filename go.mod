module github.com/gotach/profiler

go 1.25.0

require (
	github.com/klauspost/compress v1.20.3
	go.uber.org/goleak v1.3.0
)

require (
	github.com/felixge/fgprof v0.9.5
	github.com/google/go-cmp v0.7.0
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	golang.org/x/sys v0.47.0
	pgregory.net/rapid v1.3.0
)

require github.com/stretchr/testify v1.9.0 // indirect
