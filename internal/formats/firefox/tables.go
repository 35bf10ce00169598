package firefox

import (
	"github.com/gotach/profiler/internal/formats/runs"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// tables are what all threads share.
type tables struct {
	s          *runs.Session
	categories []category
	states     []inCategory // by number of the state

	strings stream.Table[string]
	files   stream.Table[int] // of sources: numbers of strings
	funcs   stream.Table[function]
	frames  stream.Table[frame]

	stackFrame  []int
	stackPrefix []int // -1: none
	stackNum    map[stack]int
	known       map[sampleStack]int // of the stacks of samples
}

// A category is a class of states. Its subcategories are the states.
type category struct {
	Name   string   `json:"name"`
	Color  string   `json:"color"`
	States []string `json:"subcategories"`
}

// inCategory is a subcategory.
type inCategory struct{ category, subcategory int }

// A function is a name and a file, both as numbers of strings.
type function struct{ name, file int }

// A frame is a line of a function in a class or a state.
type frame struct {
	function, line int // 0: no line
	inCategory
}

// A stack is a frame on top of another stack.
type stack struct{ prefix, frame int }

// A sampleStack is a stack of the session in a state.
type sampleStack struct{ stack, state uint32 }

// colors are the colors of the classes. Firefox Profiler knows only certain names.
var colors = [stream.Classes]string{
	stream.ClassOnCPU: "green", stream.ClassNoCore: "orange", stream.ClassRunnable: "yellow", stream.ClassSyscall: "brown", stream.ClassIO: "blue",
	stream.ClassLock: "red", stream.ClassChannel: "purple", stream.ClassSleep: "darkgrey", stream.ClassOther: "grey",
}

func newTables(s *runs.Session) tables {
	t := tables{s: s, stackNum: map[stack]int{}, known: map[sampleStack]int{}}
	// The page needs a grey category "Other". It is the default one if it is the first.
	of := [stream.Classes]int{}
	for i := range stream.Classes {
		class := (i + stream.ClassOther) % stream.Classes
		of[class] = int(i)
		t.categories = append(t.categories, category{class.String(), colors[class], []string{"Other"}})
	}
	for _, state := range s.States {
		number := of[stream.ClassOf(state)]
		c := &t.categories[number]
		t.states = append(t.states, inCategory{number, len(c.States)})
		c.States = append(c.States, state)
	}
	return t
}

// text returns the number of a string.
func (t *tables) text(s string) int { return int(t.strings.Of(s)) }

// stack returns the number of the stack of a run.
func (t *tables) stack(r *runs.Run) int {
	key := sampleStack{r.Stack, r.State}
	n, ok := t.known[key]
	if !ok {
		in := t.states[r.State]
		n = t.push(t.callers(t.s.Stacks[r.Stack].Caller, in.category), t.s.Stacks[r.Stack].Frame, in)
		t.known[key] = n
	}
	return n
}

// callers returns the number of a stack of the session in a category. -1 is the empty stack.
func (t *tables) callers(at uint32, category int) int {
	var path []uint32 // frames, innermost first
	for ; at != 0; at = t.s.Stacks[at].Caller {
		path = append(path, t.s.Stacks[at].Frame)
	}
	n := -1
	for i := len(path) - 1; i >= 0; i-- {
		n = t.push(n, path[i], inCategory{category, 0})
	}
	return n
}

// push returns the stack with a frame of the session on top of another one.
func (t *tables) push(prefix int, number uint32, in inCategory) int {
	f := t.s.Frames[number]
	fn := function{t.text(profile.FuncName(f.Func)), t.text(f.File)}
	s := stack{prefix, int(t.frames.Of(frame{int(t.funcs.Of(fn)), max(0, int(f.Line)), in}))}
	n, ok := t.stackNum[s]
	if !ok {
		n = len(t.stackFrame)
		t.stackNum[s] = n
		t.stackFrame, t.stackPrefix = append(t.stackFrame, s.frame), append(t.stackPrefix, prefix)
	}
	return n
}
