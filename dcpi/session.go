package dcpi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/tachyon"
)

// The events of profiles made from Go programs; a sample stands for a period of
// that many nanoseconds.
const (
	EventCPU  = "cpu_ns"  // samples of goroutines that ran
	EventWall = "wall_ns" // all samples
)

// FromSession makes the profiles of a session that gotach recorded, one of each
// event that has samples, from the leaf addresses in its metadata. The interval
// is that between two ticks. A count is a number of samples, whatever they
// weigh: where a waiting goroutine is sampled less often than a running one,
// wall_ns shows less of its time than a report of the session does.
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
	for _, event := range []string{EventCPU, EventWall} {
		p := &Profile{Header: sessionHeader(m, event, interval)}
		if err := p.Add(leafCounts(m.PCs, event)); err != nil {
			return nil, fmt.Errorf("event %s: %w", event, err)
		}
		if len(p.Chunks) > 0 {
			ps = append(ps, p)
		}
	}
	return ps, nil
}

func leafCounts(pcs *tachyon.LeafPCs, event string) iter.Seq[Count] {
	return func(yield func(Count) bool) {
		for _, pc := range pcs.PCs {
			n := pc.Wall
			if event == EventCPU {
				n = pc.CPU
			}
			if !yield(Count{pc.Addr, n}) {
				return
			}
		}
	}
}

func sessionHeader(m *tachyon.Metadata, event string, interval time.Duration) (h Header) {
	s := m.Session
	add := func(word, value string) {
		// A line feed would end the line.
		if value = strings.TrimSpace(strings.ReplaceAll(value, "\n", " ")); value != "" {
			h.Lines = append(h.Lines, NewLine(word, value))
		}
	}
	here := machine(s.Host)
	add("version", "pdb-0.07")
	add("image", imageID(s))
	add("epoch", s.Start.UTC().Format("0601021504"))
	add("platform", cmp.Or(s.Host, "unknown"))
	add("event", event)
	add("period", strconv.FormatInt(interval.Nanoseconds(), 10))
	add("tstart", strconv.FormatUint(m.PCs.TextStart, 16))
	add("tsize", strconv.FormatUint(m.PCs.TextSize, 10))
	add("cpuspeed", strconv.FormatUint(here.mhz, 10))
	if here.cpus > 0 {
		add("cpucount", strconv.Itoa(here.cpus))
	}
	add("path", s.Executable)
	add("x-buildid", s.BuildID)
	return h
}

// imageID identifies the executable: when it was last changed, 14 digits, and 6
// hex digits of its build ID (of a hash, where that is not in hex). Where the executable is gone or
// another by now, the time is zeros.
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

type machineInfo struct {
	cpus int
	mhz  uint64
}

// machine describes the machine this runs on if that is the host, and knows
// nothing of any other.
func machine(host string) (m machineInfo) {
	if name, err := os.Hostname(); err != nil || name != host {
		return m
	}
	m.cpus = runtime.NumCPU()
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.mhz = cpuinfoMHz(string(b))
	}
	if m.mhz == 0 { // arm64 has it only here, in kHz
		b, _ := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
		khz, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		m.mhz = khz / 1000
	}
	return m
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
