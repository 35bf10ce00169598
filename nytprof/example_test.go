package nytprof_test

import (
	"bytes"
	"fmt"
	"log"
	"os"

	"github.com/gotach/profiler/nytprof"
)

// Time per line of a Perl program, without loading its profile.
func ExampleReader() {
	f, err := os.Open("testdata/c01-fib.nytprof")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	ticks := make(map[uint32]int32)
	for c, err := range nytprof.NewReader(f).Chunks() {
		if err != nil {
			log.Fatal(err)
		}
		switch c := c.(type) {
		case *nytprof.Attribute:
			if c.Key == "application" {
				fmt.Println(c.Value)
			}
		case *nytprof.TimeLine:
			ticks[c.Line] += c.Ticks
		}
	}
	fmt.Println("line 3:", ticks[3], "ticks")
	// Output:
	// src/fib.pl
	// line 3: 1227 ticks
}

func ExampleWriter() {
	var file bytes.Buffer
	w := nytprof.NewWriter(&file)
	for _, c := range []nytprof.Chunk{
		&nytprof.Version{Major: 5},
		&nytprof.Attribute{Key: "ticks_per_sec", Value: "10000000"},
		&nytprof.TimeLine{Ticks: 300, FID: 1, Line: 42},
	} {
		if err := w.Write(c); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", file.String())
	// Output: "NYTProf 5 0\n:ticks_per_sec=10000000\n+\x81,\x01*"
}

func ExampleDumpJSON() {
	c := &nytprof.NewFID{FID: 1, Flags: nytprof.FlagViaStmt | nytprof.FlagViaSub, Name: nytprof.String{Text: "/a/é.go"}}
	if err := nytprof.DumpJSON(os.Stdout, c); err != nil {
		log.Fatal(err)
	}
	// Output: ["NEW_FID",1,0,0,6,0,0,{"hex":"2f612fc3a92e676f"}]
}

func ExampleLoad() {
	f, err := os.Open("testdata/c01-fib.nytprof")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	d, err := nytprof.Load(f)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range d.Subs {
		if s.Name == "main::fib" {
			fmt.Printf("lines %d-%d: %d calls\n", s.First, s.Last, s.Count())
		}
	}
	// Output: lines 3-3: 134 calls
}
