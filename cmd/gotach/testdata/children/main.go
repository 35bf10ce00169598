// Command children starts two of itself if it has no argument. Each ends when its input does.
package main

import (
	"io"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) == 1 {
		for range 2 {
			cmd := exec.Command(os.Args[0], "child")
			cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
			if err := cmd.Start(); err != nil {
				panic(err)
			}
			defer cmd.Wait()
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
