//go:build goexperiment.runtimesecret

// Command secretprog works in secret.Do while it is sampled. Then it searches all its memory for the data that it
// used there. It must be built with GOEXPERIMENT=runtimesecret.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"runtime/secret"
	"strings"
	"time"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// pattern is in registers and memory only within secret.Do. The search uses its hash.
const (
	pattern = 0xc0ffee5ec2e75a17
	hashed  = 0x763f8a5d31bfd517
)

func hash(v uint64) uint64 {
	v *= 0x9e3779b97f4a7c15
	return v ^ v>>29
}

type sink struct {
	sampler.OnePart
	seen int
}

func (k *sink) Intern(f tachyon.Frame) uint32 {
	if f.Func == "main.work" || f.Func == "main.mix" {
		return 1
	}
	return 2
}

func (k *sink) WriteBatch(list []tachyon.Sample) (int, error) {
	for _, s := range list {
		if len(s.Stack) > 0 && s.Stack[0] == 1 {
			k.seen++
		}
	}
	return len(list), nil
}

func (*sink) Forget(uint64, uint32) error { return nil }

func (*sink) WriteRecords(*tachyon.Records) error { return nil }

// mix has so many arguments that not all are in registers: the last ones are at the end of its caller's frame,
// at the stack pointer.
//
//go:noinline
func mix(a, b, c, d, e, f, g, h, i, j, k, l uint64) uint64 {
	return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l
}

// work keeps the pattern x at the end of its frame and, all the time, in a register.
//
//go:noinline
func work(x uint64, end time.Time) (n uint64) {
	for i := uint64(0); i%64 != 0 || time.Now().Before(end); i++ {
		n += mix(x, x, x, x, x, x, x, x, x, x, x, x)
		for j := range 10000 {
			n += x >> (j & 63)
		}
	}
	return n - x
}

// find returns the places of the pattern in the program's writable memory.
func find() (places []string) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		panic(err)
	}
	defer memory.Close()
	buf := make([]byte, 1<<16)
	for sc := bufio.NewScanner(strings.NewReader(string(maps))); sc.Scan(); {
		var lo, hi uint64
		var perm string
		fmt.Sscanf(sc.Text(), "%x-%x %s", &lo, &hi, &perm)
		if !strings.HasPrefix(perm, "rw") {
			continue
		}
		for at := lo; at < hi; at += uint64(len(buf)) {
			n, _ := memory.ReadAt(buf[:min(uint64(len(buf)), hi-at)], int64(at))
			for i := 0; i+8 <= n; i += 8 {
				if hash(binary.LittleEndian.Uint64(buf[i:])) == hashed {
					places = append(places, fmt.Sprintf("%#x in %s", at+uint64(i), sc.Text()))
				}
			}
			clear(buf)
		}
	}
	return places
}

func main() {
	k := &sink{}
	if os.Args[1] == "sampled" {
		s, err := sampler.Start(sampler.Config{Source: sampler.Native, Rate: 10000, Budget: 50}, k)
		if err != nil {
			fmt.Println("Start:", err)
			os.Exit(1)
		}
		defer func() {
			if err := s.Stop(); err != nil || k.seen < 100 {
				fmt.Printf("Stop: %v; %d samples\n", err, k.seen)
				os.Exit(1)
			}
			fmt.Println("ok")
		}()
	}
	done := make(chan uint64)
	for range 2 {
		go func() {
			// The thread then waits and gets no more signals, so its signal stack stays as it is.
			runtime.LockOSThread()
			secret.Do(func() { work(pattern, time.Now().Add(time.Second)) })
			done <- 0
			select {}
		}()
	}
	<-done
	<-done
	for range 3 { // by its documentation, package secret has erased the data by then
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	if places := find(); len(places) > 0 {
		fmt.Printf("%d times, first at\n%s\n", len(places), strings.Join(places[:min(10, len(places))], "\n"))
		os.Exit(1)
	}
	if os.Args[1] != "sampled" {
		fmt.Println("ok")
	}
}
