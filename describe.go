package profiler

import (
	"debug/elf"
	"encoding/hex"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// describe says what was profiled and how well that went, in a part of the session
// that began at a time; part 0 is all of it. Without stats the part is not over.
// Arguments and environment are left out: they may hold secrets.
func (s *Session) describe(part int, at time.Duration, stats *sampler.Stats) *tachyon.Session {
	d := &tachyon.Session{
		Program:    programName(),
		GoVersion:  runtime.Version(),
		GOOS:       runtime.GOOS,
		GOARCH:     runtime.GOARCH,
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		Host:       hostname(),
		PID:        os.Getpid(),
		Start:      s.start.Add(at).Round(0).UTC(), // without the monotonic reading
		Executable: s.exe.path,
		BuildID:    s.exe.buildID,
	}
	if part > 1 { // as the file's header has it
		d.Start = time.UnixMicro(s.start.UnixMicro()).Add(at).UTC()
	}
	if part > 0 {
		d.Part, d.SessionStart = part, s.start.Round(0).UTC()
	}
	if stats == nil { // at the start, for a file that is never finished
		d.Rate, d.Budget, d.Source = s.config.rate, s.config.budget, s.config.source
		d.Error = "the session was not stopped"
	} else {
		stats.Describe(d)
	}
	if err := s.Err(); err != nil {
		d.Error = err.Error()
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		d.Module, d.Version = info.Main.Path, info.Main.Version
		for _, kv := range info.Settings {
			if strings.HasPrefix(kv.Key, "vcs") {
				if d.VCS == nil {
					d.VCS = map[string]string{}
				}
				d.VCS[kv.Key] = kv.Value
			}
		}
	}
	return d
}

// executable is what the file of the running program says of itself. All but
// the path is zero where that is not ELF.
type executable struct {
	path                string
	buildID             string // GNU's in hex, else Go's own
	textStart, textSize uint64 // of .text, as linked
}

func readExecutable() (e executable) {
	path, err := os.Executable()
	if err != nil {
		return e
	}
	e.path = path
	f, err := elf.Open(path)
	if err != nil {
		return e
	}
	defer f.Close()
	if text := f.Section(".text"); text != nil {
		e.textStart, e.textSize = text.Addr, text.Size
	}
	if id := note(f, ".note.gnu.build-id"); len(id) > 0 {
		e.buildID = hex.EncodeToString(id)
	} else {
		e.buildID = string(note(f, ".note.go.buildid"))
	}
	return e
}

// note returns the description in an ELF note section: sizes of name and
// description and a type, 4 bytes each, then the two, padded to 4 bytes.
func note(f *elf.File, name string) []byte {
	s := f.Section(name)
	if s == nil {
		return nil
	}
	b, err := s.Data()
	if err != nil || len(b) < 12 {
		return nil
	}
	nameSize, size := uint64(f.ByteOrder.Uint32(b)), uint64(f.ByteOrder.Uint32(b[4:]))
	from := 12 + (nameSize+3)&^3
	if from+size > uint64(len(b)) {
		return nil
	}
	return b[from : from+size]
}
