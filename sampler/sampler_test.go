package sampler_test

import (
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gotach/profiler/internal/tachyon"
	"github.com/gotach/profiler/sampler"
)

// memory is a sink that keeps all it is given.
type memory struct {
	ids     map[tachyon.Frame]uint32
	frames  []tachyon.Frame
	samples []tachyon.Sample
	fail    func(n int) error // before sample n
}

func (m *memory) Intern(f tachyon.Frame) uint32 {
	if m.ids == nil {
		m.ids = make(map[tachyon.Frame]uint32)
	}
	id, ok := m.ids[f]
	if !ok {
		id = uint32(len(m.frames))
		m.ids[f] = id
		m.frames = append(m.frames, f)
	}
	return id
}

func (m *memory) Write(s *tachyon.Sample) error {
	if m.fail != nil {
		if err := m.fail(len(m.samples)); err != nil {
			return err
		}
	}
	c := *s
	c.Stack = append([]uint32(nil), s.Stack...)
	m.samples = append(m.samples, c)
	return nil
}

func TestStartStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	var m memory
	s, err := sampler.Start(sampler.Config{Source: sampler.Portable, Budget: 50}, &m)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan bool)
	parked := make(chan bool)
	go func() {
		parked <- true
		<-stop
	}()
	<-parked
	for s.Stats().TicksReached < 20 {
		time.Sleep(time.Millisecond)
		runtime.Gosched()
	}
	close(stop)
	if s.Goroutines() != nil {
		t.Error("goroutines before Stop")
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	st := s.Stats()
	t.Logf("%+v", st)
	if st.Samples != int64(len(m.samples)) {
		t.Errorf("Stats has %d samples, the sink %d", st.Samples, len(m.samples))
	}
	for _, g := range s.Goroutines() {
		t.Logf("%+v", g)
	}
	for _, s := range m.samples[:10] {
		t.Logf("%+v", s)
		for _, f := range s.Stack {
			t.Logf("    %+v", m.frames[f])
		}
	}
}
