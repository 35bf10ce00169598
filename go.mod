module github.com/gotach/profiler

go 1.25.0

require github.com/klauspost/compress v1.18.4
