// Package collapsed reads and writes folded stacks, the text that flame graph
// tools read: a stack a line, from its root to its leaf, and its weight.
//
//	main.main;main.serve;encoding/json.Marshal 41250
//	goroutine 7;main.worker;[chan receive] 998000
//
// The second line begins with its goroutine; writing that is an option. A last
// element in brackets is what the goroutine waited for, or time that is of no function,
// such as [scheduler].
package collapsed

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

// Options say what to write. The zero value is wall time, stacks of all
// goroutines together.
type Options struct {
	Goroutines bool // each stack begins with "goroutine N"
	CPU        bool // weigh by CPU time; stacks without any are left out
}

// unit is what a weight of 1 is, written and read. Files of other programs
// mostly count samples, and none of them says so.
const unit = time.Microsecond

// Write writes p, equal stacks added up, in order of their text.
func Write(w io.Writer, p *profile.Profile, o Options) error {
	names := make([]string, len(p.Frames))
	for i, f := range p.Frames {
		names[i] = name(f)
	}
	weights := map[string]time.Duration{}
	var line []byte
	for i := range p.Records {
		r := &p.Records[i]
		weight := r.Wall
		if o.CPU {
			weight = r.CPU
		}
		line = line[:0]
		if o.Goroutines && r.OfGoroutine() {
			line = strconv.AppendUint(append(line, "goroutine "...), r.Goroutine, 10)
		}
		for _, id := range slices.Backward(r.Stack) {
			if len(line) > 0 {
				line = append(line, ';')
			}
			line = append(line, names[id]...)
		}
		if len(line) == 0 {
			line = append(line, "[no stack]"...)
		}
		if sum := weights[string(line)] + weight; sum >= weight { // it does not overflow
			weights[string(line)] = sum
		} else {
			weights[string(line)] = math.MaxInt64
		}
	}
	stacks := make([]string, 0, len(weights))
	for s, weight := range weights {
		if weight >= unit/2 {
			stacks = append(stacks, s)
		}
	}
	slices.Sort(stacks)
	b := bufio.NewWriter(w)
	for _, s := range stacks {
		b.WriteString(s)
		b.WriteByte(' ')
		b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(weights[s].Round(unit)/unit), 10))
		b.WriteByte('\n')
	}
	return b.Flush()
}

// clean keeps a name from ending its element or its line.
var clean = strings.NewReplacer(";", ":", "\n", " ", "\r", " ")

func name(f profile.Frame) string {
	n := f.Func
	if n == "" {
		n = f.File
	}
	if n == "" {
		n = "?"
	}
	return clean.Replace(n)
}

// maxLine is how long a line may be.
const maxLine = 16 << 20

// Read reads a profile. A weight of 1 becomes 1 µs, which is what Write writes. The
// file does not say what its weights are, so the profile is Unitless.
func Read(r io.Reader) (*profile.Profile, error) {
	b := profile.NewBuilder()
	b.Profile.Unitless = true
	sum := int64(0)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimRight(lines.Text(), " \t\r")
		if line == "" {
			continue
		}
		stack, weight, err := split(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if weight > math.MaxInt64/int64(unit)-sum {
			return nil, fmt.Errorf("line %d: the sum of the weights is too large", n)
		}
		sum += weight
		r := record(b, stack)
		r.Count, r.Wall = weight, time.Duration(weight)*unit
		b.Add(r)
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("longer than %d MB", maxLine>>20)
		}
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if n == 0 {
		return nil, errors.New("no stacks")
	}
	return b.Finish(), nil
}

// split parts a line into stack and weight.
func split(line string) (stack string, weight int64, err error) {
	i := strings.LastIndexByte(line, ' ')
	if i <= 0 {
		return "", 0, errors.New("not collapsed stacks: a line must be a stack, a space and a weight")
	}
	number := line[i+1:]
	weight, err = strconv.ParseInt(number, 10, 64)
	if err != nil {
		// Some tools write fractions, such as averages.
		f, ferr := strconv.ParseFloat(number, 64)
		if ferr != nil || math.IsNaN(f) || f >= math.MaxInt64 || f < 0 {
			return "", 0, fmt.Errorf("%q is not a weight", number)
		}
		weight = int64(math.Round(f))
	}
	if weight < 0 {
		return "", 0, fmt.Errorf("the weight %d is negative", weight)
	}
	return line[:i], weight, nil
}

// record makes an empty record of a stack's text.
func record(b *profile.Builder, stack string) (r profile.Record) {
	parts := strings.Split(stack, ";")
	if id, ok := strings.CutPrefix(parts[0], "goroutine "); ok {
		if n, err := strconv.ParseUint(id, 10, 64); err == nil {
			r.Goroutine = n
			parts = parts[1:]
		}
	}
	for _, name := range slices.Backward(parts) {
		r.Stack = append(r.Stack, b.Frame(profile.Frame{Func: name}, 0))
	}
	if len(r.Stack) > 0 {
		r.State = profile.LeafState(b.Profile.Frames[r.Stack[0]])
	}
	return r
}

// Sniff reports whether a file that begins with head looks like folded stacks:
// text whose whole first lines each end in a weight, one with more than one frame.
func Sniff(head []byte) bool {
	if len(head) == 0 || bytes.IndexByte(head, 0) >= 0 {
		return false
	}
	whole := head
	if i := bytes.LastIndexByte(head, '\n'); i >= 0 {
		whole = head[:i]
	}
	stacks := false
	for line := range bytes.Lines(whole) {
		text := strings.TrimRight(string(line), " \t\r\n")
		if text == "" {
			continue
		}
		stack, _, err := split(text)
		if err != nil {
			return false
		}
		stacks = stacks || strings.Contains(stack, ";")
	}
	return stacks
}
