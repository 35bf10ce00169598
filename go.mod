module github.com/gotach/profiler

go 1.25.0
