// Command loader runs a plugin, which its first argument names. While it loads, it can be read already.
package main

import (
	"fmt"
	"os"
	"plugin"
)

func main() {
	fmt.Println("begun")
	os.Stdin.Read(make([]byte, 1)) // what comes after the line is for the plugin
	p, err := plugin.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	run, err := p.Lookup("Run")
	if err != nil {
		panic(err)
	}
	run.(func())()
}
