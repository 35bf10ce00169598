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
// [Open] works like [Start] and returns the error. Other packages use the same sessions:
//
//   - auto: a blank import starts a session if PROFILE_OUT is set;
//   - httpprof: serves profiles over HTTP;
//   - proftest: profiles tests;
//   - export: a blank import makes [Export] and PROFILE_EXPORT write other formats;
//   - leaks: a blank import makes [Leaks] and PROFILE_LEAKS ask the runtime.
//
// A program that imports only this package links no network code, no cgo and none of
// the other formats.
//
// # Samples
//
// A session ticks PROFILE_RATE times a second. Each tick samples goroutines: their stack,
// id and state. The state is running on a core, running without a core, runnable, in a
// system call or C (blocked or on a core), or waiting. A waiting goroutine also has the
// reason, in the runtime's own words, and the native source also says for which channel or lock
// it waits if a second goroutine does so too (with Go 1.25 channels only; see tachyon.Object). CPU time is what the kernel's clocks say, and its sum
// is the process's. Of the runtime's own goroutines only CPU time counts, unless
// [SystemGoroutines] says otherwise. The weight of a sample is the
// time since the previous sample of the same goroutine. All reports use these weights, so
// times stay right when the budget reduces the number of samples.
//
// The profiler's own goroutines are not sampled. This package's functions and httpprof's
// handler are not in stacks: the time in them is time of the function that calls them.
//
// # Safety
//
// A session never panics, exits or changes what the program does. The first error
// becomes one [log/slog] warning, and [Session.Err] and [Session.Stop] return it. Sampling
// measures its own cost and takes fewer samples when that cost reaches the budget, and few
// while nothing runs. After
// Stop nothing of the session is left running, except goroutines that had no turn to end because others need all cores. [Session.Stats] reports how sampling goes.
//
// A program that is killed, or that a signal ends, loses only the samples that the sampler has not
// written yet. On a machine that is not busy these are the samples of at most the last 100 ms, on a
// busy one of longer. Of a wait that lasts, up to its second half is lost, a second or two at most. Written samples that
// are not in the file yet are in a journal beside it, file.tach.journal, which Stop deletes.
// The command reads an unfinished file together with its journal, also while the program
// runs, and "gotach recover" finishes the file. A crash of the whole machine loses the
// samples that the kernel has not written to the disk; [SyncEvery] limits that loss, on
// Linux. There is no journal on Windows, OpenBSD, Solaris and AIX, nor for an output that is
// not a regular file.
//
// A session overwrites a finished profile at its path. An unfinished one, of a program that was
// killed, is kept: it gets the name file.1.tach, or the next number, together with its
// journal. Of the unfinished files of killed programs three are kept for each output, with
// rotation too: the oldest one, which tells what happened before the first failure, and the
// two latest ones. If they have more than 1 GB ([KeepBytes] with rotation), only later ones
// are kept, and always the latest. The log says which ones are deleted. A file that is no
// profile is not overwritten; then no session begins. A symbolic link is followed if it
// belongs to the user or to root.
//
// # Rotation
//
// A session that runs for days should write many files. [RotateEvery] and [RotateBytes] set
// when the session begins a new file. [KeepFiles] and [KeepBytes] limit how many finished
// files are kept; the session deletes its oldest ones. For the output app.tach the files
// are app.1.tach, app.2.tach and so on. Numbers start after the highest one that exists.
// Each file can be read as soon as it is finished. No sample is lost or counted twice
// between two files: the weight of a goroutine's first sample in a file is the time since
// its last sample in an earlier file. If a new file cannot be made, the session continues
// the old one and reports the error.
//
// If nothing can be written, because the disk is full or failed, the session drops samples until it can
// make a new file, also without rotation (app.2.tach for app.tach). It tries that every second. Warnings say the
// error and, afterwards, how long it lasted; [Stats] and the old file have the time as Unwritten.
//
// # Environment
//
// A variable that is set overrides the option of the same setting, so the person who runs
// the program can change what its code asks for. An empty variable counts as not set. An
// invalid value causes one warning, which names the variable and the value that is used
// instead: the option's value, or else the default.
//
//	PROFILE_OUT          the file; %p pid, %h host, %e program, %t start time, %% a percent sign; default %e-%p.tach
//	PROFILE_RATE         ticks a second, 1 to 10000; default 1000
//	PROFILE_SOURCE       auto, native, portable, or off: no profile, and nothing is logged; default auto
//	PROFILE_BUDGET       the most that sampling may cost, in percent of the CPU that the process may use; default 1
//	PROFILE_COMPRESSION  zstd or none; default zstd
//	PROFILE_SYNC         how often to sync the file to the disk, such as 1s, or none; default none
//	PROFILE_ROTATE       when to begin a new file, such as 60s, 100MB or 60s,100MB, or none; default none
//	PROFILE_KEEP         how many finished files and how many bytes to keep, such as 20,500MB; default 100,1GB
//	PROFILE_EXPORT       other formats to write at Stop, as format=path, separated by commas, or none; not over the profile; needs package export
//	PROFILE_SERVICE      the service and its version, as NAME or NAME@VERSION; default OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES
//	PROFILE_PAUSE        the longest time for which one tick of the portable source may stop the program; default 10ms
//	PROFILE_SYSTEM       1 to include waits of the runtime's own goroutines; default 0
//	PROFILE_LEAKS        1 to ask the runtime at Stop which goroutines are leaked (Go 1.27, package leaks); default 0
package profiler
