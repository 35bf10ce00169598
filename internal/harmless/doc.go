// Package harmless tests that profiling changes nothing: it runs the own tests
// of other people's modules, and of the standard library, with the profiler
// sampling inside them and without it, and compares.
//
//	go test ./internal/harmless                          a package of the standard library
//	GOTACH_HARMLESS=quick go test ./internal/harmless    and the three quickest modules
//	GOTACH_HARMLESS=all go test -timeout 3h ./internal/harmless
//	GOTACH_HARMLESS=all go test -run Suites/raft ./internal/harmless
//
// It also has programs that end, fail, fork and get signals in every way, writes
// docs/harm.md from what becomes of them (see cases_test.go for how to add one), and runs
// many that end at once:
//
//	go test -run Harm ./internal/harmless -update
//	GOTACH_PROGRAMS=20000 go test -run ShortPrograms -timeout 1h ./internal/harmless
//
// Each suite runs three times each way, in turns. What is compared is how the
// test binary ends (exit code or signal) and every single test's verdict. The
// profile must be there too, made by the native source; where there is none, there
// are no tests. GOTACH_HARMLESS_LOGS names a directory to keep the output in.
//
// The profiler gets in through `go test -overlay`, so that no file of the module
// or of GOROOT is touched: see link_test.go.
package harmless
