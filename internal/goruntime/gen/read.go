package main

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"sort"
	"strconv"
	"strings"
)

// missing is the offset of a field that a version does not have, with -older.
const missing = -1

// readOffsets returns the offsets of the fields, in the order of fields.
func readOffsets(bin string) ([]int64, error) {
	f, err := elf.Open(bin)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	structs := map[string]*dwarf.StructType{}
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil {
			break
		}
		if name, _ := e.Val(dwarf.AttrName).(string); e.Tag == dwarf.TagStructType && (strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "sync.")) {
			t, err := d.Type(e.Offset)
			if err != nil {
				return nil, err
			}
			structs[name], _ = t.(*dwarf.StructType)
		}
	}
	var out []int64
	for _, f := range fields {
		found := false
		for _, path := range strings.Split(f.path, "|") {
			if off, ok := offset(structs[f.typ], path); ok {
				out, found = append(out, off), true
				break
			}
		}
		switch {
		case found:
		case older:
			out = append(out, missing)
		default:
			return nil, fmt.Errorf("%s has no %s", f.typ, f.path)
		}
	}
	return out, nil
}

// offset returns the offset of a member, given by a path such as "sched.pc".
func offset(st *dwarf.StructType, path string) (off int64, ok bool) {
	for _, part := range strings.Split(path, ".") {
		member := find(st, part)
		if member == nil {
			return 0, false
		}
		off += member.ByteOffset
		t := member.Type
		for {
			td, ok := t.(*dwarf.TypedefType)
			if !ok {
				break
			}
			t = td.Type
		}
		st, _ = t.(*dwarf.StructType)
	}
	return off, true
}

func find(st *dwarf.StructType, name string) *dwarf.StructField {
	if st == nil {
		return nil
	}
	for _, f := range st.Field {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// waitReasons reads the waitReason constants of runtime2.go and their texts. It also returns two
// bit sets of them. durable has those that mean idleness inside a synctest bubble; the runtime
// prints them with "(durable)". system has those of goroutines that run on the system stack
// although their status is waiting.
func waitReasons(file string) (reasons []string, durable, system uint64, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return nil, 0, 0, err
	}
	number := map[string]int{}
	texts := map[int]string{}
	sets := map[string]uint64{}
	for _, decl := range f.Decls {
		gd, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		if gd.Tok == token.CONST && len(gd.Specs) > 0 {
			if first := gd.Specs[0].(*ast.ValueSpec).Names[0].Name; first == "waitReasonZero" {
				for i, s := range gd.Specs {
					number[s.(*ast.ValueSpec).Names[0].Name] = i
				}
			}
		}
	}
	table := "" // the variable whose elements follow
	ast.Inspect(f, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.ValueSpec:
			table = x.Names[0].Name
		case *ast.KeyValueExpr:
			key, _ := x.Key.(*ast.Ident)
			if key == nil {
				return true
			}
			n, ok := number[key.Name]
			if !ok {
				return true
			}
			if v, ok := x.Value.(*ast.BasicLit); ok && table == "waitReasonStrings" {
				texts[n], err = strconv.Unquote(v.Value)
			} else {
				sets[table] |= 1 << n
			}
		}
		return err == nil
	})
	if err != nil {
		return nil, 0, 0, err
	}
	var ns []int
	for n := range texts {
		ns = append(ns, n)
	}
	sort.Ints(ns)
	if len(ns) < 25 || ns[len(ns)-1] != len(ns)-1 || len(ns) != len(number) || len(ns) > 64 {
		return nil, 0, 0, fmt.Errorf("%s: %d wait reasons with %d texts", file, len(number), len(ns))
	}
	for _, n := range ns {
		reasons = append(reasons, texts[n])
	}
	durable, system = sets["isIdleInSynctest"], sets["isWaitingForSuspendG"]
	if !older && (durable == 0 || system == 0) {
		return nil, 0, 0, fmt.Errorf("%s: isIdleInSynctest or isWaitingForSuspendG not found", file)
	}
	return reasons, durable, system, nil
}
