// Package attach reads the goroutines of another process that runs a Go program, without stopping
// it. It only reads (process_vm_readv, and perf events of its threads): no signal, no write, and no
// ptrace unless --pause is set. The program needs no symbols and nothing of gotach.
//
// What it knows of Go's runtime is in package goruntime, and for older versions in older_gen.go.
//
// # Files
//
//   - process.go opens a process, and says why one cannot be read and what helps
//   - core.go opens what a process has left when it ended
//   - options.go says how to record, and how it went
//   - record.go samples a process to a file
//   - known.go has what is known of goroutines, from their first look to their end, and says when
//     those that do not run are looked at, and have samples
//   - files.go begins files, writes to them and finishes them
//   - cpu.go gives CPU time to goroutines and pseudo threads
//   - perf.go has the kernel sample the threads that run
//   - samples.go makes the stacks of samples
//   - session.go describes the program and the cost
//   - goroutines.go reads goroutines and their labels, and notices those that moved meanwhile
//   - stopped.go reads the calls of goroutines that run: in a core, or while their threads are
//     stopped
//   - objects.go reads what goroutines wait for
//   - farends.go finds the descriptors that goroutines wait for, and names those that are sockets
//   - unwind.go finds the calls of a stack
//   - functions.go has names and lines of a program's code
//   - program.go reads the file of a program or library, and finds the runtime's variables in
//     memory
//   - memory.go reads memory of another process
//   - registers_amd64.go and registers_arm64.go say where registers are in cores and samples
//   - other.go is the package on other systems
//   - older_gen.go is the table of offsets of versions that are only read from outside
package attach
