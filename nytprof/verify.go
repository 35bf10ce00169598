package nytprof

import (
	"fmt"
	"io"
	"strconv"
)

// A Check is what [Verify] found in a file.
type Check struct {
	Chunks     int64
	Statements int64    // TIME_LINEs and TIME_BLOCKs
	Files      int      // NEW_FIDs
	Subs       int      // SUB_INFOs
	Inflated   bool     // compressed
	Warnings   []string // what Perl's tools would warn of, the first few
}

// Verify reads a file and checks what Perl's reader insists on beyond the
// format: some of it would make perl crash. The error is as [Reader.Chunks] has it.
func Verify(r io.Reader) (*Check, error) {
	v := verifier{Check: new(Check), fids: make(map[uint32]bool), subs: make(map[string]bool), start: make(map[uint32]float64)}
	rd := NewReader(r)
	at := rd.d.offset()
	for c, err := range rd.Chunks() {
		if err != nil {
			return v.Check, err
		}
		if err := v.chunk(c); err != nil {
			return v.Check, rd.errorAt(at, err)
		}
		at = rd.d.offset()
	}
	return v.Check, v.end()
}

type verifier struct {
	*Check
	fids     map[uint32]bool
	highest  uint32
	subs     map[string]bool
	tps      float64
	overhead bool
	ticks    int64
	start    map[uint32]float64
	life     float64
	discount bool
}

// maxWarnings is the number of warnings that are kept.
const maxWarnings = 10

func (v *verifier) warn(format string, args ...any) {
	if len(v.Warnings) < maxWarnings {
		v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
	}
}

// known returns an error for a file number without NEW_FID: perl's reader crashes at
// one.
func (v *verifier) known(c Chunk, fid uint32) error {
	if fid != 0 && !v.fids[fid] {
		return fmt.Errorf("%s names file %d before its NEW_FID", c.Tag(), fid)
	}
	return nil
}

func (v *verifier) chunk(c Chunk) error {
	v.Chunks++
	switch c := c.(type) {
	case *Attribute:
		return v.attribute(c)
	case *TimeLine:
		return v.time(c, c.Ticks)
	case *TimeBlock:
		return v.time(c, c.Ticks)
	case *Discount:
		if v.discount {
			v.warn("two DISCOUNTs in a row")
		}
		v.discount = true
	case *NewFID:
		v.Files++
		v.fids[c.FID] = true
		v.highest = max(v.highest, c.FID)
		return v.known(c, c.EvalFID)
	case *SubInfo:
		v.Subs++
		if v.subs[c.Name.Text] {
			v.warn("the sub %q is defined twice", c.Name.Text)
		}
		v.subs[c.Name.Text] = true
		return v.known(c, c.FID)
	case *SubCallers:
		return v.known(c, c.FID)
	case *PIDStart:
		v.start[c.PID] = c.Time
	case *PIDEnd:
		start, ok := v.start[c.PID]
		if !ok {
			v.warn("PID_END of process %d without PID_START", c.PID)
		} else {
			v.life += c.Time - start
		}
	case *StartDeflate:
		v.Inflated = true
	}
	return nil
}

func (v *verifier) attribute(c *Attribute) error {
	switch c.Key {
	case "ticks_per_sec":
		n, err := strconv.ParseUint(c.Value, 10, 32)
		if err != nil || n == 0 {
			return fmt.Errorf("ticks_per_sec is %q, not a number of 32 bits", c.Value)
		}
		v.tps = float64(n)
	case "nv_size":
		if c.Value != "8" {
			return fmt.Errorf("nv_size is %q, not 8: the doubles in this file have another size", c.Value)
		}
	case attrOverhead:
		v.overhead = true
	}
	return nil
}

func (v *verifier) time(c Chunk, ticks int32) error {
	v.Statements++
	v.ticks += int64(ticks)
	v.discount = false
	if v.tps == 0 {
		return fmt.Errorf("%s before the attribute ticks_per_sec", c.Tag())
	}
	return nil
}

// end makes the checks that need the whole file.
func (v *verifier) end() error {
	if int(v.highest) != len(v.fids) {
		return &FormatError{Offset: 0, Err: fmt.Errorf("%d files have numbers up to %d: perl needs them to be consecutive", len(v.fids), v.highest)}
	}
	if len(v.start) == 0 {
		v.warn("no PID_START")
	}
	if v.tps == 0 {
		v.warn("no attribute ticks_per_sec")
	} else if seconds := float64(v.ticks) / v.tps; seconds > 1.1*v.life {
		v.warn("statements took %.6g s in a life of %.6g s", seconds, v.life)
	}
	if !v.overhead {
		v.warn("no attribute " + attrOverhead)
	}
	return nil
}

// Recode copies a file, compressed or not. The chunks stay.
func Recode(w io.Writer, r io.Reader, uncompressed bool) error {
	cw := NewWriter(w)
	deflated := uncompressed
	for c, err := range NewReader(r).Chunks() {
		if err != nil {
			return err
		}
		switch c.(type) {
		case *StartDeflate:
			continue
		case *Version, *Comment, *Attribute, *Option:
		default:
			if !deflated {
				deflated = true
				if err := cw.Write(&StartDeflate{}); err != nil {
					return err
				}
			}
		}
		if err := cw.Write(c); err != nil {
			return err
		}
	}
	return cw.Close()
}
