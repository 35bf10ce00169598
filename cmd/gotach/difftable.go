package main

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze/diff"
	"github.com/gotach/profiler/internal/profile"
)

// amount returns what a row takes as text, without a sign: a time for each request, percent, or a
// number.
func amount(d *diff.Diff, r *diff.Row, f float64) string {
	f = math.Abs(f)
	switch {
	case r.What == diff.WhatRequests:
	case d.Per == "request" && f < 1000:
		return "0"
	case d.Per == "request":
		return duration(time.Duration(f))
	case d.Per == "share" || r.What == diff.WhatCPU && r.Level != diff.LevelWhole:
		if f < 0.00005 {
			return "0"
		}
		return digits(100*f) + " %"
	}
	switch {
	case f < 0.0005:
		return "0"
	case f < 0.0995:
		return fmt.Sprintf("%.3f", f)
	}
	return digits(f)
}

// moreOf says how much more a row takes.
func moreOf(d *diff.Diff, r *diff.Row, f float64) string {
	text := amount(d, r, f)
	if d.Per == "wall" && r.What != diff.WhatCPU {
		text += " goroutines"
	}
	return text
}

// signed is amount with a sign.
func signed(d *diff.Diff, r *diff.Row, f float64) string {
	text := amount(d, r, f)
	switch {
	case text == "0":
		return text
	case f < 0:
		return "-" + text
	}
	return "+" + text
}

// kindOf says in a word what a row is.
func kindOf(d *diff.Diff, r *diff.Row) string {
	switch {
	case r.Level == diff.LevelWhole && d.Per != "wall":
		return map[string]string{diff.WhatCPU: "CPU", diff.WhatGoroutines: "time of all goroutines"}[r.What]
	case r.Level == diff.LevelWhole:
		return map[string]string{diff.WhatCPU: "CPU, cores", diff.WhatGoroutines: "goroutines", diff.WhatRequests: "requests a second"}[r.What]
	case r.What == diff.WhatWait && r.Level == diff.LevelTotal:
		return "waits total"
	case r.What == diff.WhatWait:
		return "waits"
	case r.Level == diff.LevelTotal:
		return "CPU total"
	}
	return "CPU"
}

// diffTable returns the rows as text:
//
//	A before.tach: 20.0s, 60 windows of 333ms
//	B after.tach: 20.0s, 60 windows of 333ms
//
//	       A        B      CHANGE  INTERVAL
//	    1.20     1.24  ~    +0.04   -0.15..+0.23    CPU, cores
//	    50.0      168        +118    +110..+126     goroutines
//
//	2 rows are different: CPU in percent of a core, waits as the number of goroutines
//
//	    12.0      130        +118    +110..+126     waits      [chan receive] main.forgotten
//	       0   2.01 %     +2.01 %  +1.8 %..+2.2 %   CPU total  main.check  new
//
//	28 rows did not change more than chance explains; --all shows them
func diffTable(sides [2][]string, d *diff.Diff, fl diffFlags, paint paint, width int) []byte {
	var b bytes.Buffer
	for i, files := range sides {
		name := filepath.ToSlash(files[0])
		if len(files) > 1 {
			name += fmt.Sprintf(" and %d more", len(files)-1)
		}
		printf(&b, "%s %s, %s of %s\n", paint.bold(string(rune('A'+i))+" "+name+":"), duration(d.Length[i]),
			plural(int64(d.Windows[i]), "window"), duration(d.Window))
		if d.Per == "request" {
			printf(&b, "  %s of %s on average\n", plural(int64(d.Requests[i]), "request"), duration(d.Request[i]))
		}
	}
	var whole, different, chance, untested []*diff.Row
	for i := range d.Rows {
		switch r := &d.Rows[i]; {
		case r.Level == diff.LevelWhole:
			whole = append(whole, r)
		case r.Significant:
			different = append(different, r)
		case r.Tested:
			chance = append(chance, r)
		default:
			untested = append(untested, r)
		}
	}
	head := fmt.Sprintf("%8s %8s    %9s  %-21s  ", "A", "B", "CHANGE", "      INTERVAL")
	printf(&b, "\n%s\n", paint.bold(strings.TrimRight(head, " ")))
	room := width - utf8.RuneCountInString(head) - len("CPU total  ")
	left := 0 // rows that are beyond --top
	print := func(rows []*diff.Row) {
		for i, r := range rows {
			if fl.top > 0 && i >= fl.top {
				left += len(rows) - i
				return
			}
			printDiffRow(&b, d, r, paint, room)
		}
	}
	print(whole)
	unit := map[string]string{"wall": "CPU in percent of a core, waits as the number of goroutines", "share": "in percent of the time of all goroutines", "request": "in time for each request"}[d.Per]
	are := "rows are"
	if len(different) == 1 {
		are = "row is"
	}
	printf(&b, "\n%d %s different: %s\n", len(different), are, unit)
	if len(different) > 0 {
		printf(&b, "\n")
	}
	print(different)
	if fl.all {
		printf(&b, "\n%s may be by chance\n\n", plural(int64(len(chance)), "row"))
		print(chance)
		printf(&b, "\n%s not tested: too small, or of the machine\n\n", plural(int64(len(untested)), "row"))
		print(untested)
	} else {
		printNotDifferent(&b, d, chance, untested)
	}
	if left > 0 {
		printf(&b, "%s\n", paint.dim(fmt.Sprintf("%d more rows; --top 0 shows all", left)))
	}
	return b.Bytes()
}

// printNotDifferent says how many rows differ by chance, and how the machine differs.
func printNotDifferent(b *bytes.Buffer, d *diff.Diff, chance, untested []*diff.Row) {
	them := "them"
	if len(chance) == 1 {
		them = "it"
	}
	if len(chance) > 0 {
		printf(b, "\n%s did not change more than chance explains; --all shows %s\n", plural(int64(len(chance)), "row"), them)
	}
	var machine []string
	for _, r := range untested {
		if r.Name == "[no core]" || r.Name == "[runnable]" {
			machine = append(machine, fmt.Sprintf("%s %s to %s", r.Name, amount(d, r, r.A), amount(d, r, r.B)))
		}
	}
	if machine != nil {
		printf(b, "not tested, of the machine: %s\n", strings.Join(machine, ", "))
	}
}

func printDiffRow(b *bytes.Buffer, d *diff.Diff, r *diff.Row, paint paint, room int) {
	mark, delta := "~", fmt.Sprintf("%9s", signed(d, r, r.Delta))
	if r.Significant {
		mark = " "
		delta = paint.good(delta)
		if r.Delta > 0 {
			delta = paint.busy(fmt.Sprintf("%9s", signed(d, r, r.Delta)))
		}
	}
	note := ""
	switch {
	case r.A == 0:
		note = "  new"
	case r.B == 0:
		note = "  gone"
	}
	interval := fmt.Sprintf("%9s..%-9s", signed(d, r, r.Low), signed(d, r, r.High))
	if !r.Tested {
		interval = "     not tested"
	}
	printf(b, "%8s %8s  %s %s  %-21s  ", amount(d, r, r.A), amount(d, r, r.B), mark, delta, interval)
	if r.Level == diff.LevelWhole {
		printf(b, "%s\n", kindOf(d, r))
		return
	}
	printf(b, "%-9s  %s%s\n", kindOf(d, r), shorten(profile.FuncName(r.Name), max(minName, room-len(note))), paint.dim(note))
}
