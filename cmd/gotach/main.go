// Command gotach reads, reports and converts the profiles that package
// profiler records. See gotach help.
package main

import (
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// The exit codes.
const (
	exitOK    = 0
	exitError = 1 // the data or the system said no
	exitUsage = 2 // wrong usage
)

// run is the whole command: arguments in, exit code out.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{stdin: stdin, stdout: stdout, stderr: stderr}
	cmd := newRoot(e)
	cmd.SetArgs(args)
	return e.exit(cmd.Execute())
}
