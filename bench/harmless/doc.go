// Package harmless tests that profiling changes nothing. It has programs that end, fail, fork and
// get signals in many ways, and compares what they do with the tables of docs/harm.md;
// cases_test.go describes how to add a case. It also runs many programs that end soon after their
// start, GOTACH_NIGHT=1 20,000 of them:
//
//	go test ./bench/harmless
//	go test -tags peers -run Harm ./bench/harmless -update
//
// It runs the tests of other modules and of the standard library, with the profiler in the test
// binary and without it, and compares the exit code or signal of the test binary, and the verdict
// of each test. There must also be a profile of the native source. With GOTACH_NIGHT=1 it takes all
// suites, and runs each three times with and three times without the profiler, in turns.
//
//	go test -tags peers -run TestPeerSuites ./bench/harmless
//	GOTACH_NIGHT=1 go test -tags peers -timeout 3h -run TestPeerSuites/raft ./bench/harmless
//
// `go test -overlay` adds the profiler to a test binary, so that no file of the module or of GOROOT
// changes: see harmless_test.go.
//
// And it profiles real programs with known faults, for docs/cases.md:
//
//	GOTACH_NIGHT=1 go test -tags peers -run TestPeerCases -timeout 1h ./bench/harmless [-update]
package harmless
