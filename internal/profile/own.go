package profile

import (
	"regexp"
	"strings"
)

// standard is the first elements of the import paths of the standard library.
var standard = map[string]bool{}

func init() {
	for name := range strings.FieldsSeq(`archive arena bufio builtin bytes cmp compress container context crypto database
		debug embed encoding errors expvar flag fmt go hash html image index internal io iter log maps math mime net os
		path plugin reflect regexp runtime simd slices sort strconv strings structs sync syscall testing text time
		unicode unique unsafe uuid vendor weak`) {
		standard[name] = true
	}
}

// IsStandard reports whether a frame is of the runtime or of the standard library, or is a wait.
func IsStandard(f *Frame) bool {
	if f.File == "" {
		return true
	}
	path := Package(f.Func)
	if first, _, _ := strings.Cut(path, "/"); !standard[first] {
		return false
	}
	// A module may have such a name too. Files of the standard library are in GOROOT/src, or have
	// names that begin with the import path if the program was built with -trimpath. That of time.Sleep
	// is in the runtime's folder.
	file := strings.ReplaceAll(f.File, `\`, "/")
	if i := strings.LastIndex(file, "/src/"); i >= 0 {
		file = file[i+len("/src/"):]
	}
	first, _, _ := strings.Cut(file, "/")
	return standard[first]
}

// IsModule reports whether a frame is of another module than the program's: its file is in the module
// cache or in a vendor folder.
func IsModule(f *Frame) bool {
	file := strings.ReplaceAll(f.File, `\`, "/")
	dir := file[:strings.LastIndexByte(file, '/')+1]
	return strings.Contains(dir, "@v") || strings.Contains(dir, "/vendor/") || strings.HasPrefix(dir, "vendor/")
}

// A Code says whose code a frame is. The greatest one in a stack says best what the goroutine does.
type Code uint8

const (
	UnknownCode  Code = iota // not looked at
	WaitFrame                // no function
	LowestCode               // of the standard library: the last step of waits
	CarrierCode              // of the standard library: reads, writes and waits for whoever calls it, such as package io
	StandardCode             // of the rest of the standard library, such as net/http
	ModuleCode               // of another module
	ProgramCode
	askedCode
)

// lowest is the first elements of the import paths of LowestCode, carriers the import paths of CarrierCode.
var (
	lowest   = map[string]bool{"runtime": true, "internal": true, "sync": true, "syscall": true}
	carriers = map[string]bool{"bufio": true, "bytes": true, "context": true, "io": true, "net": true, "os": true, "time": true}
)

// CodeOf returns whose code a frame is, never UnknownCode.
func CodeOf(f *Frame) Code {
	switch {
	case f.File == "":
		return WaitFrame
	case IsStandard(f):
	case IsModule(f):
		return ModuleCode
	default:
		return ProgramCode
	}
	path := Package(f.Func)
	if first, _, _ := strings.Cut(path, "/"); lowest[first] {
		return LowestCode
	}
	if carriers[path] {
		return CarrierCode
	}
	return StandardCode
}

// An ownCode finds the program's own code in stacks.
type ownCode struct {
	p    *Profile
	asks *regexp.Regexp // what is the program's own code; nil: what is neither in a module nor standard
	kind []Code         // by frame
}

// frame returns the innermost frame of a stack that is the program's own code. If there is none, it is the innermost one
// with the greatest Code; false if no frame is a function.
func (o *ownCode) frame(stack []uint32) (id uint32, ok bool) {
	best := WaitFrame
	for _, n := range stack {
		if o.kind[n] == UnknownCode {
			o.kind[n] = o.look(&o.p.Frames[n])
		}
		if k := o.kind[n]; k > best {
			id, ok, best = n, true, k
		}
	}
	return id, ok
}

func (o *ownCode) look(f *Frame) Code {
	if f.File != "" && o.asks != nil && (o.asks.MatchString(FuncName(f.Func)) || o.asks.MatchString(f.File)) {
		return askedCode
	}
	return CodeOf(f)
}

// OwnFrames returns a function that finds the innermost frame of a stack that is the program's own code, as ByBlocked does.
func (p *Profile) OwnFrames() func(stack []uint32) (id uint32, ok bool) {
	own := ownCode{p: p, kind: make([]Code, len(p.Frames))}
	return own.frame
}
