package sampler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// objectSink notes the objects and the samples that it gets.
type objectSink struct {
	OnePart
	full bool
	log  []string
}

func (k *objectSink) Intern(tachyon.Frame) uint32 { return 0 }

func (k *objectSink) WriteBatch(samples []tachyon.Sample) (int, error) {
	k.log = append(k.log, fmt.Sprint(len(samples), " samples"))
	return len(samples), nil
}

func (*objectSink) WriteRecords(*tachyon.Records) error { return nil }

func (k *objectSink) Objects(list []tachyon.Object) error {
	for _, o := range list {
		k.log = append(k.log, fmt.Sprint(o.Kind, " ", o.Number))
	}
	return nil
}

func (k *objectSink) Forget(uint64, uint32) error           { return nil }
func (k *objectSink) Full() bool                            { return k.full }
func (k *objectSink) Next(_ time.Duration, cut func() Part) { cut() }

// Each part of a session has the objects that its samples need, before these samples.
func TestObjectsOfParts(t *testing.T) {
	sink := &objectSink{}
	r := newRecorder(sink, time.Now(), 1000)
	r.stats = func() Stats { return Stats{} }
	mutex := &source.Object{Object: tachyon.Object{Number: 2, Kind: tachyon.ObjectMutex}}
	channel := &source.Object{Object: tachyon.Object{Number: 1, Kind: tachyon.ObjectChannel}}
	set := &source.Object{Object: tachyon.Object{Number: 3, Kind: tachyon.ObjectSelect, Members: []int32{1}}, Of: []*source.Object{channel}}
	at := time.Duration(0)
	pass := func(objects ...*source.Object) {
		r.Batch(func() {
			for _, o := range objects {
				at += time.Millisecond
				r.Sample(&source.Sample{Goroutine: 5, Time: at, Stack: []uint32{0}, Object: o})
			}
		})
	}
	pass(nil, mutex, mutex)
	pass(mutex, set)
	mutex.Kind = tachyon.ObjectRWMutex
	pass(mutex)
	sink.full = true
	pass(set)
	sink.full = false
	pass(channel, set, mutex)
	want := []string{
		"sync.Mutex 2", "3 samples",
		"chan 1", "select 3", "2 samples",
		"sync.RWMutex 2", "1 samples",
		"chan 1", "select 3", "1 samples", // the second part
		"sync.RWMutex 2", "3 samples",
	}
	if !slices.Equal(sink.log, want) {
		t.Errorf("got  %q\nwant %q", sink.log, want)
	}
}
