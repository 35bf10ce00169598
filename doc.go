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
// A session ticks PROFILE_RATE times a second. Each tick samples goroutines: stack, id and
// state. The state is running on a core, running without a core, runnable, in a system call or
// C (blocked or on a core), or waiting. A waiting goroutine also has the reason, in the
// runtime's words. The native source adds the channel or lock that it waits for, if a second
// goroutine waits for it too (with Go 1.25 channels only; see tachyon.Object).
//
// The weight of a sample is the time since the previous sample of the same goroutine. All
// reports use weights, so times stay right when the budget reduces the number of samples. CPU
// time is measured by the kernel's clocks, and its sum is that of the process. The runtime's
// own goroutines count with their CPU time only, unless [SystemGoroutines] is set.
//
// The profiler's own goroutines are not sampled. Functions of this package and the handler of
// httpprof are not in stacks: their time is that of the function that calls them.
//
// # Safety
//
// A session never panics, exits or changes what the program does. Its first error becomes one
// [log/slog] warning, and [Session.Err] and [Session.Stop] return it. Sampling measures its own
// cost and takes fewer samples when that reaches the budget, and few while nothing runs. After
// Stop nothing of the session runs, except goroutines that had no turn to end because others
// need all cores. [Session.Stats] reports how sampling goes.
//
// A program that is killed, or that a signal ends, loses the samples that are not written yet:
// at most those of the last 100 ms, more on a busy machine. Of a wait that lasts, at most the
// second half is lost, and a second or two at most. Samples that are written but not in the
// file are in a journal beside it, file.tach.journal, which Stop deletes. The command reads the
// two together, even while the program runs, and "gotach recover" makes one file of them. There
// is no journal on Windows, OpenBSD, Solaris and AIX, nor for an output that is not a regular
// file.
//
// A crash of the whole machine loses what the kernel has not written to the disk. [SyncEvery]
// limits that loss, on Linux.
//
// A session overwrites a finished profile at its path. It keeps the unfinished file of a killed
// program, and its journal, as file.1.tach or the next free number. For each output three such
// files stay, with rotation too: the oldest, which shows the time before the first failure, and
// the two latest. If they exceed 1 GB ([KeepBytes] with rotation), earlier ones are deleted,
// never the latest. The log says which. A file that is no profile is not overwritten; then no
// session begins. A symbolic link is followed if it belongs to the user or to root.
//
// # Rotation
//
// A session that runs for days should write many files. [RotateEvery] and [RotateBytes] set
// when it begins a new file. [KeepFiles] and [KeepBytes] limit the finished files; the session
// deletes its oldest ones. For the output app.tach the files are app.1.tach, app.2.tach and so
// on, after the highest number that exists. A file can be read as soon as it is finished. No
// sample is lost or counted twice between two files: the weight of a goroutine's first sample
// in a file is the time since its last sample in an earlier file. If a new file cannot be made,
// the session continues the old one and reports the error.
//
// If nothing can be written, because the disk is full or failed, the session drops samples and
// tries every second to make a new file, even without rotation (app.2.tach for app.tach). One
// warning has the error, another one afterwards the time that it lasted. [Stats] and the old
// file have that time as Unwritten.
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
