// Package session is what a session of package profiler does: it opens the file, starts the
// sampler, and says in the file's metadata what was sampled. Package profiler puts options and
// environment on top. The handlers of httpprof follow a session without going through its public
// face.
//
// Files, each of which uses only those after it:
//
//   - session.go: from Open to Stop, its errors and warnings;
//   - files.go: the sampler's sink, which writes one file after the other and completes each;
//   - describe.go: the metadata about program, machine and sampling;
//   - output.go: names of files;
//   - objectnames.go: gives objects in variables, such as global locks, the names of these
//     variables;
//   - variables.go: finds the variable at an address, in the executable's symbol table;
//   - executable.go: the executable's ELF sections;
//   - config.go: the settings of a session, made of options and environment by package profiler.
package session
