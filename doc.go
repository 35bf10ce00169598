// Package profiler samples every goroutine of the program it is linked into,
// running or waiting, and streams what it sees into one small file.
//
// One line profiles a program from there to the end of main:
//
//	defer profiler.Start().Stop()
//
// The file is $PROFILE_OUT, else ./<program>-<pid>.tach. The gotach command
// reports on it and converts it for pprof, flame graphs and others:
//
//	go run github.com/gotach/profiler/cmd/gotach report app.tach
//
// Three other ways lead to the same file. A blank import of package auto starts
// a session when PROFILE_OUT is set and nothing otherwise; package httpprof serves
// profiles over HTTP; package proftest profiles tests. [Open] is [Start] for
// those who want the error.
//
// # What a sample says
//
// Each tick, PROFILE_RATE times a second, records goroutines with their stack,
// id and state: on a CPU, runnable, in a system call, or waiting and for what,
// in the runtime's own words. A sample stands for the time since the previous
// one of the same goroutine; all reports weigh by that time, so a profile that
// the budget thinned is still right.
//
// # Safety
//
// A session never panics, exits or changes what the program does. What goes
// wrong becomes one [log/slog] warning and the error that [Session.Err] and
// [Session.Stop] return. Sampling measures what it costs and ticks less often
// rather than take more of the machine's CPU than the budget allows. After Stop
// nothing of the session is left running.
//
// Nothing is lost if the program is killed: what is not in the file yet lies in
// a journal beside it, file.tach.journal, which Stop deletes. The command reads
// such a file as it stands, while the program runs too, and "gotach recover"
// finishes it. A crash of the whole machine takes what the kernel had not
// written; PROFILE_SYNC bounds that, on Linux. There is no journal on Windows,
// OpenBSD, Solaris and AIX, nor for an output that is not a regular file.
//
// # Many files
//
// A session that runs for days had better be many files. With [Rotate] it goes on
// in a new one after a time or a size, and with [Keep] the oldest are deleted; only
// those that the session itself has made. Of app.tach the files are app.1.tach,
// app.2.tach and so on, after the highest number that is there. Each can be read
// as soon as it is finished. No sample is lost or doubled between two: the first
// sample of a goroutine in a file stands for the time since its last in one
// before. If there can be no new file, the old one goes on, and that is the session's error.
//
// # Environment
//
//	PROFILE_OUT          where to write; %p pid, %h host, %e program, %t start time, %% a percent sign
//	PROFILE_RATE         ticks a second, 1 to 10000; default 1000
//	PROFILE_SOURCE       auto, native or portable; default auto
//	PROFILE_BUDGET       what sampling may cost, in percent of the machine's CPU; default 1
//	PROFILE_COMPRESSION  zstd or none; default zstd
//	PROFILE_SYNC         how often to sync the file to the disk, such as 1s; default never
//	PROFILE_ROTATE       when to go on in a new file, such as 60s, 100MB or 60s,100MB; default never
//	PROFILE_KEEP         of these, how many to keep and how many bytes, such as 20,500MB; default 100,1GB
//	PROFILE_EXPORT       other formats to write at the end, as format=path, separated by commas; needs package export
//
// PROFILE_OUT takes precedence over [Output]; any other option given in code
// takes precedence over its variable. An empty variable counts as not set, a
// value that makes no sense as a warning and the default.
package profiler
