package portable

import (
	"time"

	"github.com/gotach/profiler/internal/rows"
	"github.com/gotach/profiler/sampler/internal/source"
)

// cpu pays the CPU time of the process to the samples of running goroutines, in whole samples. The
// text of runtime.Stack does not say on which cores they ran, and threads have no clocks on all
// systems. So when the kernel gives the process less CPU time than it has running goroutines, some
// of them, chosen at random, run without a core at each look.
type cpu struct {
	known bool          // the system says what the process uses
	used  time.Duration // by the process, at the last look
	base  time.Duration // at the session's start
	own   time.Duration // CPU time of the last look that is not part of used yet
	pool  time.Duration // CPU time that no sample has been given
	keep  time.Duration // so much of pool is left for the samples of the next look
	rows  source.Rows
}

func newCPU(at time.Duration) (c cpu) {
	c.used, c.known = processTime()
	c.base = c.used
	c.rows.Begin(at)
	return c
}

// look adds what the process has used since the last look. own is the CPU time of the source since
// then.
func (c *cpu) look(own time.Duration) {
	if !c.known {
		return
	}
	now, _ := processTime()
	since := max(0, now-c.used)
	own = min(own, since)
	c.used = max(c.used, now)
	c.rows.Add(rows.Profiler, nil, own)
	c.pool += since - own
}

// pay reports whether a running goroutine's sample is on the CPU. weight is what it stands for.
func (c *cpu) pay(weight time.Duration) bool {
	if !c.known {
		return true
	}
	if c.pool < weight/2 {
		return false
	}
	c.pool -= weight
	return true
}

// settle gives the scheduler what goroutines have not used, and writes the rows. passed is the CPU
// time of all cores since the last look. As much is left for the samples of the next look. After a
// late look it is as much for some looks: the goroutines of that look may have been given nothing,
// because less than half of its time was paid for.
func (c *cpu) settle(out source.Out, at, passed time.Duration, end bool) {
	if c.keep = max(passed, c.keep-c.keep/16); end {
		c.keep = 0
	}
	if c.pool > c.keep {
		c.rows.Add(rows.Scheduler, nil, c.pool-c.keep)
		c.pool = c.keep
	}
	c.rows.Write(out, at, end)
}
