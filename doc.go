// Package profiler samples every goroutine of the program it is linked into,
// running or waiting, and streams the samples into one small file.
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
// [Open] is [Start] for those who want the error. Other packages use the same sessions:
//
//   - auto, by a blank import: starts a session when PROFILE_OUT is set;
//   - httpprof: serves profiles over HTTP;
//   - proftest: profiles tests;
//   - export, by a blank import: lets [Export] and PROFILE_EXPORT write other formats.
//
// A program that imports this package alone links no network code, no cgo and none of
// the other formats.
//
// # What a sample says
//
// Each tick, PROFILE_RATE times a second, records goroutines with their stack,
// id and state: on a CPU, runnable, in a system call, or waiting and for what,
// in the runtime's own words. A sample stands for the time since the previous
// one of the same goroutine. All reports weigh by that time, so a profile that
// the budget thinned is still right.
//
// # Safety
//
// A session never panics, exits or changes what the program does. What goes
// wrong becomes one [log/slog] warning and the error that [Session.Err] and
// [Session.Stop] return. Sampling measures its cost and samples less rather than take
// more of the machine's CPU than the budget allows. After Stop nothing of the
// session is left running. [Session.Stats] says how a session goes.
//
// Nothing is lost if the program is killed: what is not in the file yet is in
// a journal beside it, file.tach.journal, which Stop deletes. The command reads
// such a file as it is, while the program runs too, and "gotach recover"
// finishes it. A crash of the whole machine takes what the kernel had not
// written; [SyncEvery] bounds that, on Linux. There is no journal on Windows,
// OpenBSD, Solaris and AIX, nor for an output that is not a regular file.
//
// # Many files
//
// A session that runs for days should be many files. [RotateEvery] and [RotateAt]
// say when it goes on in a new one, [KeepFiles] and [KeepBytes] how many stay; the
// session deletes its oldest ones. For an output of app.tach the files are
// app.1.tach, app.2.tach and so on, after the highest number that exists. Each can
// be read as soon as it is finished. No sample is lost or doubled between two: the first
// sample of a goroutine in a file stands for the time since its last sample in an
// earlier one. If a new file cannot be made, the session goes on in the old one
// and reports the error.
//
// # Environment
//
// A variable that is set wins over the option, so whoever runs the program can
// change what its code says. An empty variable counts as not set. A value that makes
// no sense is one warning; it names the variable, and the value used in its place: the
// option's, else the default.
//
//	PROFILE_OUT          where to write; %p pid, %h host, %e program, %t start time, %% a percent sign
//	PROFILE_RATE         ticks a second, 1 to 10000; default 1000
//	PROFILE_SOURCE       auto, native or portable; default auto
//	PROFILE_BUDGET       what sampling may cost, in percent of the machine's CPU; default 1
//	PROFILE_COMPRESSION  zstd or none; default zstd
//	PROFILE_SYNC         how often to sync the file to the disk, such as 1s, or none; default none
//	PROFILE_ROTATE       when to go on in a new file, such as 60s, 100MB or 60s,100MB, or none; default none
//	PROFILE_KEEP         how many of these files to keep and how many bytes, such as 20,500MB; default 100,1GB
//	PROFILE_EXPORT       other formats to write at the end, as format=path, separated by commas, or none; needs package export
//	PROFILE_PAUSE        how long one tick of the portable source may stop the program; default 10ms
//	PROFILE_SYSTEM       1 to sample the runtime's own goroutines too; default 0
package profiler
