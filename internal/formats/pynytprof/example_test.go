package pynytprof

import (
	"bytes"
	"fmt"
	"log"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

func ExampleWrite() {
	p := &profile.Profile{
		Program: "server",
		Start:   time.Unix(1_795_234_152, 0),
		Frames:  []profile.Frame{{File: "/src/main.go", Func: "main.work", Line: 12}},
		Records: []profile.Record{{Stack: []uint32{0}, Count: 3, Wall: 3 * time.Millisecond}},
	}
	var file bytes.Buffer
	if err := Write(&file, p); err != nil {
		log.Fatal(err)
	}
	f, err := decode(&file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Subs[1].Name, f.Lines[0].Line, f.Lines[0].Excl, "ticks")
	// Output: main.work 12 30000 ticks
}

func ExampleRead() {
	file := "NYTProf 5 0\n:application=script.py\n\n" +
		"P\x10\x00\x00\x00\x00\x01\x02\x03\x04\x5c\x06\x00\x2a\x00\x00\x00\x01\x00\x00\x00" +
		"S\x1c\x00\x00\x00\x01\x00\x00\x00\x0a\x00\x00\x00\x03\x00\x00\x00\x10\x27\x00\x00\x00\x00\x00\x00\x10\x27\x00\x00\x00\x00\x00\x00" +
		"E\x00\x00\x00\x00"
	p, err := Read(bytes.NewReader([]byte(file)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Program, p.Records[0].Wall)
	// Output: script.py 1ms
}
