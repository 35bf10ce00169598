package dcpi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// The events of profiles made from Go programs. The period is in nanoseconds.
const (
	eventCPU  = "cpu_ns"  // samples of goroutines that ran
	eventWall = "wall_ns" // all samples
)

// FromSession makes profiles of a session that gotach recorded, from the leaf
// addresses in its metadata. There is one for each event that has samples.
//
// A sample of gotach's stands for the time since the same goroutine's previous
// sample, which is longer if the goroutine waits. A sample of DCPI's stands for the
// period of its profile. So the period is the mean weight of the session's samples,
// and the samples are distributed over the addresses in proportion to time. The
// counts add up to the number of samples. A procedure's counts times the period are
// its time, within one period. In a session without times, each sample stands for
// the interval between two ticks.
func FromSession(m *tachyon.Metadata, interval time.Duration) ([]*Profile, error) {
	switch {
	case m == nil || m.Session == nil:
		return nil, errors.New("DCPI counts instruction addresses and the profile has none: it was not recorded by gotach")
	case m.PCs == nil || len(m.PCs.PCs) == 0:
		return nil, fmt.Errorf("DCPI counts instruction addresses and the profile has none: its source (%s) did not know them", cmp.Or(m.Session.Source, "unknown"))
	case interval <= 0:
		return nil, errors.New("DCPI needs the time between two samples and the profile does not say it")
	}
	var ps []*Profile
	for _, event := range []string{eventCPU, eventWall} {
		counts, period := leafCounts(m.PCs, event, interval)
		p := &Profile{Header: sessionHeader(m, event, period)}
		if err := p.Add(slices.Values(counts)); err != nil {
			return nil, fmt.Errorf("event %s: %w", event, err)
		}
		if len(p.Chunks) > 0 {
			ps = append(ps, p)
		}
	}
	return ps, nil
}

// leafCounts returns the counts of an event, by ascending address, and the time that
// one sample stands for.
func leafCounts(pcs *tachyon.LeafPCs, event string, interval time.Duration) ([]addrCount, time.Duration) {
	of := func(pc tachyon.LeafPC) (samples, micros uint64) {
		if event == eventCPU {
			return uint64(pc.CPU), pc.CPUTime
		}
		return uint64(pc.Wall), pc.WallTime
	}
	var samples, micros uint64
	for _, pc := range pcs.PCs {
		n, t := of(pc)
		samples, micros = samples+n, micros+t
	}
	timed := micros > 0 && samples > 0 && samples <= math.MaxUint32 && micros <= math.MaxInt64/1000
	s := sharer{num: samples, den: micros}
	var counts []addrCount
	for _, pc := range pcs.PCs {
		n, t := of(pc)
		if timed {
			n = s.next(t)
		}
		if n > 0 {
			counts = append(counts, addrCount{pc.Addr, uint32(n)})
		}
	}
	if timed {
		interval = max(1, time.Duration(math.Round(float64(micros)*1000/float64(samples))))
	}
	return counts, interval
}

// A sharer multiplies numbers by num/den and rounds the products so that the sum of
// any successive ones is exact to within one.
type sharer struct {
	num, den   uint64
	sum, given uint64 // of all numbers so far, and of their products
}

// next returns a number's product. The sum of all numbers times num must be less than
// den times 2^63.
func (s *sharer) next(n uint64) uint64 {
	s.sum += n
	hi, lo := bits.Mul64(s.sum, s.num)
	lo, carry := bits.Add64(lo, s.den/2, 0)
	q, _ := bits.Div64(hi+carry, lo, s.den)
	share := q - s.given
	s.given = q
	return share
}

func sessionHeader(m *tachyon.Metadata, event string, period time.Duration) (h Header) {
	s := m.Session
	add := func(word, value string) {
		// A line feed would end the line.
		if value = strings.TrimSpace(strings.ReplaceAll(value, "\n", " ")); value != "" {
			h.Lines = append(h.Lines, NewLine(word, value))
		}
	}
	cpus, mhz := machine(s.Host)
	add("version", "pdb-0.07")
	add("image", imageID(s))
	add("epoch", s.Start.UTC().Format("0601021504"))
	add("platform", cmp.Or(s.Host, "unknown"))
	add("event", event)
	add("period", strconv.FormatInt(period.Nanoseconds(), 10))
	add("tstart", strconv.FormatUint(m.PCs.TextStart, 16))
	add("tsize", strconv.FormatUint(m.PCs.TextSize, 10))
	add("cpuspeed", strconv.FormatUint(mhz, 10))
	if cpus > 0 {
		add("cpucount", strconv.Itoa(cpus))
	}
	add("path", s.Executable)
	add("x-buildid", s.BuildID)
	return h
}

// imageID identifies the executable by the time of its last change, 14 digits, and 6
// hex digits of its build ID, or of a hash of it if it is not in hex. The time is
// zeros if the executable is gone or another one by now.
func imageID(s *tachyon.Session) string {
	changed := strings.Repeat("0", 14)
	if m, err := openImage(s.Executable, identity); err == nil && m.is(s.BuildID) {
		changed = m.ModTime.UTC().Format("20060102150405")
	}
	if len(s.BuildID) >= 6 && isHex(s.BuildID) {
		return changed + strings.ToLower(s.BuildID[:6])
	}
	sum := sha256.Sum256([]byte(s.BuildID))
	return changed + hex.EncodeToString(sum[:3])
}

// machine describes the machine on which this runs, if it is the host. It returns
// zeros for another host.
func machine(host string) (cpus int, mhz uint64) {
	if name, err := os.Hostname(); err != nil || name != host {
		return 0, 0
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		mhz = cpuinfoMHz(string(b))
	}
	if mhz == 0 { // arm64 has it only here, in kHz
		b, _ := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
		khz, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		mhz = khz / 1000
	}
	return runtime.NumCPU(), mhz
}

// cpuinfoMHz returns the clock rate of the first processor in /proc/cpuinfo.
func cpuinfoMHz(text string) uint64 {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "cpu MHz" {
			mhz, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return uint64(max(mhz, 0) + 0.5)
		}
	}
	return 0
}
