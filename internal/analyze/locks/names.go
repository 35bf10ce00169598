package locks

import (
	"fmt"
	"go/token"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// name names an object after what its most frequent site is known to wait for, else after the
// variable in which it is, else after the source text of that site, else after the function of that
// site.
func (l *Sums) name(key int32, sums *objectSums) string {
	o := l.objects[key]
	site := sums.main()
	text := ""
	if site != nil {
		if what := Known(site.frame.Func).In(site.reason, "", true); what != "" && !analyze.IsLock(sums.kind) {
			return what
		}
		text = l.sources.Expression(&site.frame, sums.kind, site.reason)
	}
	if o.Symbol != "" && !(text != "" && strings.Contains(o.Symbol, "..stmp_")) { // the linker's name of a value without one
		last := o.Symbol[strings.LastIndexByte(o.Symbol, '.')+1:]
		switch {
		case o.Offset == 0:
			return profile.FuncName(o.Symbol)
		case strings.HasPrefix(text, last+".") || strings.HasPrefix(text, last+"["):
			return profile.FuncName(strings.TrimSuffix(o.Symbol, last)) + text
		}
		return fmt.Sprintf("%s+%d", profile.FuncName(o.Symbol), o.Offset)
	}
	switch {
	case text != "":
		return text
	case len(o.Members) > 0:
		var list []string
		for _, m := range o.Members {
			name := fmt.Sprintf("channel %d", m)
			if member := l.sums[m]; member != nil && len(list) < 4 {
				name = l.name(m, member)
			}
			list = append(list, name)
		}
		if len(list) > 4 {
			list = append(list[:4], "…")
		}
		return "select of " + strings.Join(list, ", ")
	case site != nil:
		return kindName(sums.kind) + " in " + shortFunc(site.frame.Func)
	}
	return kindName(sums.kind)
}

// shortFunc returns a function's name with the last element of its import path only.
func shortFunc(function string) string {
	head := function
	if i := strings.IndexAny(head, "[("); i >= 0 {
		head = head[:i]
	}
	return profile.FuncName(function[strings.LastIndexByte(head, '/')+1:])
}

// kindName is a word for a kind of objects.
func kindName(kind string) string {
	if kind == tachyon.ObjectChannel {
		return "channel"
	}
	return strings.TrimPrefix(kind, "sync.")
}

// tellApart gives locks longer names that are different locks of one name: with the type in which
// they are fields, if the source tells, or else with the function in which goroutines waited most.
// Locks that are alike keep their name: there may be many. One that is embedded always has its
// type.
func (l *Sums) tellApart(list []Lock) {
	named := map[string][]*Lock{}
	for i := range list {
		if x := &list[i]; analyze.IsLock(x.Kind) && l.objects[x.key].Symbol == "" {
			if typ := l.typeOf(x); typ != "" && token.IsIdentifier(x.Name) { // embedded: the name is that of a value of the type
				x.Name += " of " + typ
			}
			named[x.Name] = append(named[x.Name], x)
		}
	}
	for _, same := range named {
		types, sites := map[string]bool{}, map[Site]bool{}
		for _, x := range same {
			types[l.typeOf(x)] = true
			if len(x.Sites) > 0 {
				sites[x.Sites[0].place()] = true
			}
		}
		if len(sites) < 2 {
			continue
		}
		for _, x := range same {
			switch typ := l.typeOf(x); {
			case len(types) > 1 && typ != "":
				x.Name += " of " + typ
			case len(x.Sites) > 0:
				if user := " in " + shortFunc(x.Sites[0].Func); !strings.HasSuffix(x.Name, user) {
					x.Name += user
				}
			}
		}
	}
}

// typeOf returns the name of the type of which a lock is a field, as the source at its main site
// has it; "" if that does not tell.
func (l *Sums) typeOf(x *Lock) string {
	site := l.sums[x.key].main()
	if site == nil {
		return ""
	}
	file := l.sources.File(&site.frame)
	if file == nil {
		return ""
	}
	in := file.At(int(site.frame.Line))
	if in == nil {
		return ""
	}
	for _, op := range in.Ops {
		if op.Line != int(site.frame.Line) || !op.Does.Takes() {
			continue
		}
		if k := in.Key(op.On); k.Root != "" && k.Root != "var" && !strings.HasPrefix(k.Root, "func ") {
			return shortFunc(profile.Package(site.frame.Func) + "." + k.Root)
		}
	}
	return ""
}
