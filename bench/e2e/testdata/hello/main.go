// A program that prints hello. Its argument says how it is profiled, if it was built with the tag of that name:
// profiled, or code, or auto, which the environment starts. With the tag export it can write other formats. With the
// argument "deadlock" it waits for ever, without a session.
package main

import (
	"fmt"
	"os"
)

// starts has functions that start a session and return what stops it.
var starts = map[string]func() (stop func() error){}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "deadlock" {
		select {}
	}
	if len(os.Args) > 1 {
		defer starts[os.Args[1]]()()
	}
	fmt.Println("hello")
}
