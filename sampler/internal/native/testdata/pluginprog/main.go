// Command pluginprog samples code of a plugin, which it loads before or during the session.
package main

import (
	"fmt"
	"os"
	"plugin"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

type sink struct {
	sampler.OnePart
	names []string
	seen  map[string]int
	spins atomic.Int64
	waits atomic.Int64
}

func (k *sink) Intern(f tachyon.Frame) uint32 {
	k.names = append(k.names, f.Func[strings.LastIndexByte(f.Func, '.')+1:])
	return uint32(len(k.names) - 1)
}

func (k *sink) WriteBatch(list []tachyon.Sample) (int, error) {
	for _, s := range list {
		var stack []string
		for _, id := range s.Stack {
			stack = append(stack, k.names[id])
		}
		text := strings.Join(stack, " ")
		if strings.Contains(" "+text, " Spin ") {
			k.spins.Add(1)
		}
		if strings.HasPrefix(text, "[chan receive] Wait waits ") {
			k.waits.Add(1)
		}
		k.seen[text]++
	}
	return len(list), nil
}

func (*sink) Forget(uint64, uint32) error { return nil }

func (*sink) WriteRecords(*tachyon.Records) error { return nil }

func fail(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
	os.Exit(1)
}

//go:noinline
func spins(spin func(*atomic.Bool) int, stop *atomic.Bool) { spin(stop) }

//go:noinline
func waits(wait func(chan bool), c chan bool) { wait(c) }

func main() {
	open := func() (func(*atomic.Bool) int, func(chan bool)) {
		p, err := plugin.Open(os.Args[1])
		if err != nil {
			fail("%v", err)
		}
		spin, err := p.Lookup("Spin")
		if err != nil {
			fail("%v", err)
		}
		wait, err := p.Lookup("Wait")
		if err != nil {
			fail("%v", err)
		}
		return spin.(func(*atomic.Bool) int), wait.(func(chan bool))
	}
	late := os.Args[2] == "late"
	if !late {
		open()
	}
	k := &sink{seen: map[string]int{}}
	s, err := sampler.Start(sampler.Config{Source: sampler.Native, Budget: 50}, k)
	if err != nil {
		fail("Start: %v", err)
	}
	if late {
		time.Sleep(50 * time.Millisecond)
	}
	spin, wait := open() // opening a plugin twice gives the same plugin
	var stop atomic.Bool
	c, done := make(chan bool), make(chan bool)
	go func() { spins(spin, &stop); done <- true }()
	go func() { waits(wait, c); done <- true }()
	for end := time.Now().Add(time.Minute); (k.spins.Load() < 100 || k.waits.Load() < 5) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	before := s.Stats()
	err = s.Stop()
	stop.Store(true)
	close(c)
	<-done
	<-done
	waited, inlined, odd := 0, 0, 0
	for text, n := range k.seen {
		switch text {
		case "[chan receive] Wait waits func3":
			waited += n
		case "twice count Spin spins func2", "twice Spin spins func2":
			inlined += n
		default:
			stack := strings.TrimSuffix(text, " "+tachyon.FuncUnknown) // a row of CPU time
			if strings.Contains(" "+text, " Spin ") && !strings.HasSuffix(stack, "Spin spins func2") {
				odd++
				fmt.Println(n, text)
			}
		}
	}
	fmt.Printf("%d spinning, %d of them in inlined calls, %d waiting, %d odd, %+v\n", k.spins.Load(), inlined, waited, odd, before.Counts)
	if err != nil || k.spins.Load() < 20 || waited < 5 || inlined == 0 || odd > 0 {
		fail("Stop: %v", err)
	}
	fmt.Println("ok")
}
