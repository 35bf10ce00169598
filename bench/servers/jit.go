//go:build !small

package main

// Programs with code that is compiled while they run: sonic's for JSON, and wazero's for
// WebAssembly.

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/bytedance/sonic"
	"github.com/tetratelabs/wazero"
)

func init() {
	loads["sonic"], loads["wazero"] = jsonCompiled, wasmCompiled
}

// compiledTypes are so many that the runtime has more modules than programs without a compiler ever
// have: sonic registers one for each type.
const compiledTypes = 200

type slowField struct{}

func (slowField) MarshalJSON() ([]byte, error) {
	computing(2 * time.Millisecond)
	time.Sleep(2 * time.Millisecond)
	return []byte("1"), nil
}

// jsonCompiled has goroutines in code that sonic has compiled while the program runs, which calls
// Go.
func jsonCompiled(stop <-chan struct{}, _ string) error {
	for i := range compiledTypes {
		t := reflect.StructOf([]reflect.StructField{{Name: fmt.Sprint("A", i), Type: reflect.TypeFor[slowField]()}, {Name: "B", Type: reflect.TypeFor[[]int]()}})
		v := reflect.New(t)
		v.Elem().Field(1).Set(reflect.ValueOf(make([]int, 50_000)))
		if _, err := sonic.Marshal(v.Interface()); err != nil {
			return err
		}
		if i%(compiledTypes/2) == 0 {
			go until(stop, func() { sonic.Marshal(v.Interface()) })
		}
	}
	return nil
}

// spinModule has a function that counts its argument down to 0.
var spinModule = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x05\x01\x60\x01\x7f\x00" + // type: a function of an i32
	"\x03\x02\x01\x00" +
	"\x07\x08\x01\x04spin\x00\x00" + // export
	"\x0a\x10\x01\x0e\x00\x03\x40\x20\x00\x41\x01\x6b\x22\x00\x0d\x00\x0b\x0b")

// wasmCompiled has a goroutine in code that wazero has compiled, which runs on a stack of its own,
// and one in Go.
func wasmCompiled(stop <-chan struct{}, _ string) error {
	ctx := context.Background()
	m, err := wazero.NewRuntime(ctx).Instantiate(ctx, spinModule)
	if err != nil {
		return err
	}
	spin := m.ExportedFunction("spin")
	go until(stop, func() { spin.Call(ctx, 3_000_000) })
	go until(stop, func() { computing(time.Millisecond) })
	return nil
}
