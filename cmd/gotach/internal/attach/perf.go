//go:build linux && (amd64 || arm64)

package attach

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// perf has the kernel sample the threads of a process (perf_event_open): each has a task clock, and
// a stack is taken each time that it has advanced by a period. The threads are not stopped for
// longer than an interrupt takes.
type perf struct {
	pid      int
	attr     unix.PerfEventAttr
	period   time.Duration
	threads  map[int]*thread
	due      time.Duration // when threads are listed again
	records  []byte
	chain    []uint64
	inKernel bool // samples are taken in the kernel too
}

// A thread is one of the process's.
type thread struct {
	fd    int           // of its perf event
	stat  int           // of its schedstat in /proc; the event does not count what the kernel needs for switching to the thread
	ring  []byte        // shared with the kernel: a page about it, then samples; nil: the kernel has not given the memory
	count uint64        // of the event at its last sample, ns
	given time.Duration // of its CPU time
	m     uint64        // its runtime.m; 0: not known
	last  hit           // its last one
}

// An interrupt is what the kernel says of a thread that runs.
type interrupt struct {
	cpu            time.Duration // that the thread has used since the one before
	fp, sp, lr, pc uint64
	g              uint64   // the register that has the goroutine's address in Go's code
	chain          []uint64 // by frame pointers, innermost first; valid until the next one
	stack          []byte   // from sp on; valid as chain
	kernel         bool     // the thread was in a system call, or in a fault
}

const (
	ringPages  = 4
	stackBytes = 1024 // of an interrupted thread's stack
	// The CPU time between two samples of a thread is that between two ticks, within these bounds.
	// The sampler inside a program has the lower one, because of its kernel. Each sample interrupts
	// the program for some 30 µs on a virtual machine: at 1 ms that were 3 % of its time, and no
	// figure was more exact. Each time that the kernel switches to the thread, it sets a timer for
	// the next sample. The shorter the period, the more often that has to go to the hardware.
	leastPeriod, mostPeriod = 4 * time.Millisecond, 10 * time.Millisecond
	// Threads are listed so often, but for at most a part of the time.
	listEvery, listShare = 10 * time.Millisecond, 50
)

// openPerf begins to sample the threads of a process. Its error says why this is not possible, and
// what helps. If the process has ended, it returns neither.
func openPerf(pid int, o Options) (*perf, error) {
	p := &perf{pid: pid, period: min(max(o.Interval, leastPeriod), mostPeriod), threads: map[int]*thread{}, inKernel: true}
	p.attr = unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Sample: uint64(p.period),
		Sample_type:      unix.PERF_SAMPLE_READ | unix.PERF_SAMPLE_CALLCHAIN | unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER,
		Bits:             unix.PerfBitExcludeCallchainKernel | unix.PerfBitExcludeHv,
		Sample_regs_user: registers, Sample_stack_user: stackBytes,
	}
	fd, err := p.event(pid)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		p.inKernel = false
		p.attr.Bits |= unix.PerfBitExcludeKernel
		fd, err = p.event(pid)
	}
	_ = unix.Close(fd) // -1 if there is none
	if err = cmp.Or(err, o.refused); err == nil {
		err = p.list(true, 0)
	}
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return nil, nil
	}
	return nil, deniedPerf(err)
}

func (p *perf) event(tid int) (int, error) {
	return unix.PerfEventOpen(&p.attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

// list finds threads that are new, and those that have ended. The CPU time of a new one counts from
// its begin, of those at first from now on.
func (p *perf) list(first bool, now time.Duration) error {
	if now < p.due {
		return nil
	}
	began := monotonic()
	ids, err := tasks(p.pid)
	if err != nil {
		return err
	}
	p.due = now + max(listEvery, listShare*(monotonic()-began))
	for _, tid := range ids {
		if p.threads[tid] != nil {
			continue
		}
		t := &thread{}
		t.stat, _ = unix.Open(fmt.Sprintf("/proc/%d/task/%d/schedstat", p.pid, tid), unix.O_RDONLY|unix.O_CLOEXEC, 0) // -1 after its end
		if first {
			t.given = t.clock()
		}
		if t.fd, err = p.event(tid); err != nil {
			_ = unix.Close(t.stat)
			continue // it has ended, or there are too many
		}
		t.ring, _ = unix.Mmap(t.fd, 0, (1+ringPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		p.threads[tid] = t
	}
	for tid, t := range p.threads {
		if !slices.Contains(ids, tid) {
			t.close()
			delete(p.threads, tid)
		}
	}
	return nil
}

// clock returns the CPU time of a thread, 0 if it is not known, as after its end.
func (t *thread) clock() (ns time.Duration) {
	var b [64]byte
	n, _ := unix.Pread(t.stat, b[:], 0)
	_, _ = fmt.Sscan(string(b[:max(n, 0)]), &ns)
	return ns
}

func (t *thread) close() {
	_ = unix.Munmap(t.ring)                     // there may be none
	_, _ = unix.Close(t.fd), unix.Close(t.stat) // nothing was written
}

func (p *perf) close() {
	for _, t := range p.threads {
		t.close()
	}
}

// read passes on the samples of a thread since the last call.
func (p *perf) read(t *thread, each func(*interrupt)) {
	if t.ring == nil {
		return
	}
	about := (*unix.PerfEventMmapPage)(unsafe.Pointer(&t.ring[0]))
	data := t.ring[os.Getpagesize():]
	size := uint64(len(data))
	head := atomic.LoadUint64(&about.Data_head)
	from, n := about.Data_tail%size, min(head-about.Data_tail, size)
	part := min(n, size-from)
	p.records = append(append(p.records[:0], data[from:from+part]...), data[:n-part]...) // they may go on at the begin of the ring
	atomic.StoreUint64(&about.Data_tail, head)
	for b := p.records; len(b) >= 8; {
		kind, misc, size := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint16(b[4:]), int(binary.NativeEndian.Uint16(b[6:]))
		if size < 8 || size > len(b) {
			break // it cannot be
		}
		if kind == unix.PERF_RECORD_SAMPLE {
			x, count := p.parse(b[8:size])
			x.kernel = misc&unix.PERF_RECORD_MISC_CPUMODE_MASK == unix.PERF_RECORD_MISC_KERNEL
			x.cpu = time.Duration(count - t.count)
			t.count = count
			each(&x)
		}
		b = b[size:]
	}
}

// parse takes a sample apart: the count, the chain, the registers, the stack.
func (p *perf) parse(b []byte) (x interrupt, count uint64) {
	word := func() (v uint64) {
		if len(b) >= 8 {
			v, b = binary.NativeEndian.Uint64(b), b[8:]
		}
		return v
	}
	count = word()
	p.chain = p.chain[:0]
	for range min(word(), uint64(len(b)/8)) {
		if pc := word(); pc < 1<<63 { // others say which kind of addresses follows
			p.chain = append(p.chain, pc)
		}
	}
	x.chain = p.chain
	if abi := word(); abi != 0 {
		x.fp, x.sp, x.g, x.lr, x.pc = ordered(word(), word(), word(), word(), word())
	}
	if size := word(); size > 0 && size+8 <= uint64(len(b)) {
		x.stack = b[:size]
		b = b[size:]
		x.stack = x.stack[:min(word(), size)]
	}
	return x, count
}
