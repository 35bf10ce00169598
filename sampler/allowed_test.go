package sampler_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/gotach/profiler/sampler"
)

// TestBubble checks that Start fails in a synctest bubble. The sources' goroutines would belong
// to the bubble, and its time would not advance for them.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, source := range []string{sampler.Auto, sampler.Native, sampler.Portable} {
			s, err := sampler.Start(sampler.Config{Source: source}, &count{})
			if !errors.Is(err, sampler.ErrBubble) {
				t.Errorf("%s: %v", source, err)
			}
			if err == nil {
				s.Stop()
			}
		}
	})
	if err := sampler.Allowed(); err != nil {
		t.Error(err)
	}
}
