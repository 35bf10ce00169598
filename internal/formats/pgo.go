package formats

import (
	"errors"
	"fmt"

	"github.com/gotach/profiler/internal/formats/dcpi"
	"github.com/gotach/profiler/internal/formats/pprof"
	"github.com/gotach/profiler/internal/profile"
)

// writeCPU writes a CPU profile, for go tool pprof and for go build -pgo. The latter needs to know
// where functions begin. If the profile does not say it, the executable does.
func writeCPU(t *target, in *Input, o *Options) error {
	p, err := in.sums(profile.Detail{})
	if err != nil {
		return err
	}
	out := *p
	out.Records = nil
	for _, r := range p.Records {
		if r.CPU == 0 {
			continue // a wait
		}
		if len(r.Stack) > 0 && r.OfGoroutine() {
			if _, ok := profile.WaitReason(p.Frames[r.Stack[0]]); ok { // [syscall]
				r.Stack = r.Stack[1:]
			}
		}
		if len(r.Stack) > 0 {
			out.Records = append(out.Records, r)
		}
	}
	if out.StartLines == nil {
		if out.StartLines, err = startLines(p, o.Executable); err != nil {
			err = fmt.Errorf("go build -pgo cannot use the profile, as the lines are unknown where functions begin: %w; --executable FILE says where the program is", err)
			if o.PGO {
				return err // go build reads default.pgo by itself, and would fail
			}
			o.warn(err)
		}
	}
	return pprof.WriteCPU(t.W, &out)
}

// startLines returns for each frame the line where its function begins, from the executable at a
// path or, if that is "", where it was.
func startLines(p *profile.Profile, path string) ([]int32, error) {
	id := ""
	if path == "" {
		if p.Metadata == nil || p.Metadata.Session == nil || p.Metadata.Session.Executable == "" {
			return nil, errors.New("the profile does not say what its executable was")
		}
		path, id = p.Metadata.Session.Executable, p.Metadata.Session.BuildID
	}
	lines, err := dcpi.StartLines(path, id)
	if err != nil {
		return nil, err
	}
	list := make([]int32, len(p.Frames))
	for i, f := range p.Frames {
		if line := lines[f.Func]; line <= f.Line {
			list[i] = line
		}
	}
	return list, nil
}
