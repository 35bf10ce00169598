// Package hold keeps a signal from the program until a function has run. It exists on Linux, on
// amd64 and arm64.
//
// Package os/signal delivers a signal to all its channels at the same time. A program that exits
// at SIGTERM then races with whoever else waits for that signal. So this package does not use
// os/signal. It installs a handler in front of the runtime's:
//
//   - The handler keeps the first signal and wakes a goroutine, which runs the function. Every
//     later signal goes to the runtime's handler at once.
//   - The handler sets a timer of the kernel, which sends the signal again after the longest time
//     that it may be kept. So the program gets the signal even if Go's scheduler is stuck.
//   - When the function returns earlier, the goroutine makes the timer send the signal at once.
//     The handler passes the timer's signal on to the runtime's handler, exactly once.
//   - Then the runtime's handler is installed again.
//
// For the program it is as if the signal had been sent a little later. What happens then is
// decided at that time: the signal ends the program, or os/signal delivers it, or the program
// ignores it.
//
// The runtime installs its handlers when it starts. It does so again only after signal.Ignore.
// Then the program's setting holds and nothing is kept. The handler is a few instructions in
// assembly. It needs no goroutine and nothing of the runtime. So it may run on any thread and at
// any instruction, and handlers in C that were installed later may call it.
package hold
