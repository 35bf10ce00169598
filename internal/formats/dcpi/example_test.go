package dcpi

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gotach/profiler/tachyon"
)

var counts = slices.Values([]addrCount{{Addr: 0x401a20, Count: 3}, {Addr: 0x401a22, Count: 1}})

func newProfile() *Profile {
	return &Profile{Header: Header{Lines: []Line{
		NewLine("version", "pdb-0.07"),
		NewLine("image", "20261121033416a1b2c3"),
		NewLine("epoch", "2611210334"),
		NewLine("platform", "devbox"),
		NewLine("event", eventCPU),
		NewLine("period", "1000000"),
		NewLine("tstart", "401000"),
		NewLine("tsize", "1048576"),
		NewLine("cpuspeed", "2600"),
		NewLine("path", "/srv/app/server"),
	}}}
}

func ExampleProfile_Cat() {
	p := newProfile()
	if err := p.Add(counts); err != nil {
		fmt.Println(err)
	}
	p.Cat(os.Stdout)
	// Output:
	// name                 server
	// image                20261121033416a1b2c3
	// path                 /srv/app/server
	// epoch                2611210334
	// platform             devbox
	// text_start           0x000000401000
	// text_size            0x000000100000
	// event                4 cpu_ns:1000000:10000
	// 0x000000401a20       3
	// 0x000000401a22       1
}

func ExampleSums() {
	p, err := ReadFile("testdata/1-go-sparse.dcpi", Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sums, problems := Sums(p)
	for _, problem := range problems {
		fmt.Println(problem)
	}
	for _, r := range sums.Records {
		fmt.Println(sums.Frames[r.Stack[0]].Func, r.Count, r.CPU)
	}
	// Output:
	// the executable /srv/app/server is gone, so its addresses have no procedure names
	// server+0x401a20 3 30ms
	// server+0x401a22 1 10ms
	// server+0x401a24 7 70ms
	// server+0x40f0c1 120 1.2s
	// server+0x40f0c2 1 10ms
	// server+0x4ffff0 2 20ms
}

func ExampleFromSession() {
	ps, err := FromSession(&tachyon.Metadata{
		Session: &tachyon.Session{Host: "devbox", Executable: "/srv/app/server", Start: time.Unix(1795232056, 0)},
		PCs: &tachyon.LeafPCs{TextStart: 0x401000, TextSize: 1 << 20, PCs: []tachyon.LeafPC{
			{Addr: 0x401a20, CPU: 3, Wall: 3},
			{Addr: 0x40f0c1, Wall: 120},
		}},
	}, time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range ps {
		event, _ := p.Value("event")
		addresses, samples := p.Total()
		fmt.Println(event, addresses, samples)
	}
	// Output:
	// cpu_ns 1 3
	// wall_ns 2 123
}
