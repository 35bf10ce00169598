// Command answers is a program with a known fault. It works until a signal ends it. docs/cases.md shows what gotach
// says about its profile.
//
//	answers nats|sqlite DIRECTORY
package main

import (
	"os"

	_ "github.com/gotach/profiler/auto"
)

// faults are the programs. Each starts goroutines and returns. Its files are in dir.
var faults = map[string]func(dir string){"nats": slowResponder, "sqlite": busyWriter}

func main() {
	faults[os.Args[1]](os.Args[2])
	select {}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
