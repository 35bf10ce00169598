// Package spx reads and writes the full reports of SPX, a profiler for PHP, such that
// its web interface shows them correctly.
//
// A report is a pair of files, KEY.json and KEY.txt.gz (KEY.txt.zst from SPX 0.5
// on), where KEY is spx-full-<YYYYMMDD_HHMMSS>-<host>-<pid>-<random>. The first
// says what ran and which metrics there are ([Metadata]). The second is text:
//
//	[events]
//	0 1 0 0 0             function, 1 enters or 0 leaves, a value a metric
//	1 1 49630 49200 430
//	1 0 82721 81011 1710
//	0 0 486993 470001 16992
//	[functions]
//	main
//	fib
//
// Functions are numbered by their line below [functions], from 0. Values are cumulative since the
// first event, whose values are 0. Times are nanoseconds, though other descriptions of the format
// say microseconds; wall_time_ms in the JSON file is microseconds. A file whose first zero is
// written 0.0000, as the other descriptions do and SPX does not, is taken to be in microseconds.
// SPX 0.5 writes events as differences instead and puts a place before each function's name:
//
//	0|0|a0|a0|a0          call site in hex, function, values
//	2a|1|49630|49200|430
//	-r1|33091|31811|1280  leaves; r1 is the function of the last event but 0
//	-0|404272|388990|15282
//	[functions]
//	/srv/fib.php:0:main
//	/srv/fib.php:3:fib
//
// An empty value is a difference of 0, aN is N itself, rN the function of the
// Nth event before.
//
// # Metrics
//
// In the order of the files: wt wall, ct CPU and it idle time; zm memory of the
// Zend engine, zmac zmab zmfc zmfb its allocations and releases, zgr zgb zgc its
// garbage collector, zif zil zuc zuf zuo what it compiled, zo objects, ze errors;
// mor memory of the process; io ior iow bytes read and written. zm, mor and it
// may fall. Every report has wt.
//
// # Sampled profiles
//
// SPX knows calls, a sampled profile knows stacks. [Write] lays the goroutines
// end to end, each below a root of its own. Between successive samples those
// calls stay open that both stacks have in common from the root on, so that
// times are exact: each sample adds its weight to wt and to ct or it. How often a
// function was called cannot be known; SPX shows under Called how many
// stretches of it were observed, and the report's custom metadata says so.
package spx
