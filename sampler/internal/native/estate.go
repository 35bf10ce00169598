//go:build linux && (amd64 || arm64)

package native

import (
	"time"

	"github.com/gotach/profiler/internal/rows"
)

// A goroutine that lives for less time than a visit stands for is still owed CPU time when it ends.
// A later goroutine that the same go statement starts is given it. So the CPU time of all
// goroutines of that statement is right. If there is none within a second, the time is that of an
// unknown goroutine.

// estateKept is for how long an estate waits for a goroutine.
const estateKept = time.Second

// leave moves what a goroutine is owed to the estate of its go statement.
func (d *drain) leave(g *goroutine) {
	if g.owes < time.Microsecond {
		return
	}
	e := d.estates[g.created]
	if e == nil {
		e = &estate{since: d.now}
		d.estates[g.created] = e
	}
	for _, debt := range g.debts {
		if len(e.debts) == maxDebts {
			d.unknown(debt)
			continue
		}
		e.debts = append(e.debts, debt)
	}
	g.debts, g.owes = nil, 0
}

// inherit gives a new goroutine the estate of its go statement.
func (d *drain) inherit(g *goroutine) {
	if e := d.estates[g.created]; e != nil {
		delete(d.estates, g.created)
		for _, debt := range e.debts {
			g.add(debt)
		}
	}
}

// unknown gives the row of unknown goroutines what is owed.
func (d *drain) unknown(debt debt) {
	if d.account == nil {
		return
	}
	var ids []uint32
	if debt.stack != nil {
		ids = debt.stack.ids
	}
	d.account.rows.Add(rows.Unknown, ids, debt.cpu)
}

// settleEstates gives the row of unknown goroutines what no goroutine has inherited, and at the end
// of the session all that goroutines are owed.
func (d *drain) settleEstates() {
	if d.end {
		for i := range d.gs {
			d.leave(&d.gs[i])
		}
		for _, g := range d.left {
			d.leave(&g)
		}
	}
	for created, e := range d.estates {
		if d.end || d.now-e.since > estateKept {
			delete(d.estates, created)
			for _, debt := range e.debts {
				d.unknown(debt)
			}
		}
	}
}
