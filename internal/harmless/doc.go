// Package harmless tests that profiling changes nothing. It runs the tests of other modules and of
// the standard library, with the profiler in the test binary and without it, and compares.
//
//	go test ./internal/harmless                          one package of the standard library
//	GOTACH_HARMLESS=quick go test ./internal/harmless    also the three quickest modules
//	GOTACH_HARMLESS=all go test -timeout 3h ./internal/harmless
//	GOTACH_HARMLESS=all go test -run Suites/raft ./internal/harmless
//
// It also has programs that end, fail, fork and get signals in many ways. It writes the tables of
// docs/harm.md from their results; cases_test.go describes how to add a case. And it runs many
// programs that end soon after their start:
//
//	go test -run Harm ./internal/harmless -update
//	GOTACH_PROGRAMS=20000 go test -run ShortPrograms -timeout 1h ./internal/harmless
//
// And it ends servers, some of other modules, that are profiled by package auto alone:
//
//	GOTACH_SERVERS=20 go test -run Servers -timeout 1h ./internal/harmless
//
// And it profiles real programs with known faults, for docs/cases.md:
//
//	GOTACH_CASES=1 go test -run Cases -timeout 1h ./internal/harmless [-update]
//
// Each suite runs three times with and three times without the profiler, in turns. The tests compare
// the exit code or signal of the test binary, and the verdict of each test. There must also be a
// profile of the native source, so these tests exist only on systems that have that source.
// GOTACH_HARMLESS_LOGS names a directory for the output.
//
// `go test -overlay` adds the profiler to a test binary, so that no file of the module or of GOROOT
// changes: see link_test.go.
package harmless
