// Command busy computes on one core, with its own CPU profile from the first line that it reads to the second. It prints a line after each.
package main

import (
	"bufio"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"sort"
	"strings"
)

//go:noinline
func compress(b []byte) {
	w, _ := flate.NewWriter(io.Discard, 6)
	w.Write(b)
	w.Close()
}

//go:noinline
func encode(words []string) {
	b, _ := json.Marshal(map[string]any{"words": words})
	var v any
	json.Unmarshal(b, &v)
}

//go:noinline
func order(words []string) {
	list := append([]string(nil), words...)
	sort.Strings(list)
}

//go:noinline
func hash(b []byte) (sum byte) {
	for i := 0; i < 20; i++ {
		sum += sha256.Sum256(b)[0]
	}
	return sum
}

func work(words []string, b []byte) {
	null, _ := os.OpenFile("/dev/zero", os.O_RDWR, 0)
	for {
		compress(b)
		encode(words)
		order(words)
		hash(b)
		read(null, b)
	}
}

//go:noinline
func read(f *os.File, b []byte) {
	for i := 0; i < 100; i++ {
		f.Read(b)
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	var words []string
	for i := 0; i < 20000; i++ {
		words = append(words, fmt.Sprint(i*7919%20011, "word"))
	}
	b := []byte(strings.Join(words, " "))
	for i := 0; i < 2; i++ {
		go work(words, bytes.Clone(b))
	}
	f, _ := os.Create(os.Args[1])
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	runtime.SetCPUProfileRate(500)
	pprof.StartCPUProfile(f)
	fmt.Println("began")
	in.Scan()
	pprof.StopCPUProfile()
	f.Close()
	fmt.Println("ended")
	in.Scan()
}
