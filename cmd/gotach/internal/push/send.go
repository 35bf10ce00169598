package push

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/reader"
)

// sendAll sends files, until a batch fails for now or the context ends; then failed is true. The
// error is that of a Pusher that gives up.
func (p *Pusher) sendAll(ctx context.Context, entries []entry) (failed bool, err error) {
	total := len(entries)
	defer func() {
		if p.pruned > 0 {
			p.log.Warn("deleted the oldest parked files", "files", p.pruned, "limit in bytes", p.o.KeepRefused, "limit in files", maxParked)
		}
		p.pruned = 0
	}()
	for len(entries) > 0 && ctx.Err() == nil {
		var batch *Batch
		var of []entry
		if batch, of, entries = p.next(entries); batch == nil {
			continue
		}
		again, err := p.send(ctx, batch, of)
		if err != nil || len(again) > 0 {
			for _, e := range again {
				p.tries[e.name]++
			}
			return true, err
		}
		p.metrics.left(len(entries))
		if p.o.Progress != nil {
			p.o.Progress(uint64(total-len(entries)), uint64(total))
		}
	}
	return len(entries) > 0, nil
}

// next takes as many files as a batch may have. It returns a nil batch if none of them has to be
// sent.
func (p *Pusher) next(entries []entry) (b *Batch, of, rest []entry) {
	limits := p.o.Target.Limits()
	most := max(1, limits.Files)
	before := map[ID]bool{} // the batch of the process before this one comes again as it was
	for _, id := range p.before {
		if p.cursor.ids[id] == nil {
			before[id] = true
		}
	}
	p.before = nil
	b = &Batch{}
	size := int64(0)
	var later []entry
	for len(entries) > 0 && len(b.Files) < max(most, len(before)) {
		e := entries[0]
		if len(before) == 0 && len(b.Files) > 0 && limits.Bytes > 0 && size+e.size > limits.Bytes {
			break
		}
		entries = entries[1:]
		f, err := openFile(p.dir, e.name)
		if err != nil {
			p.unreadable(e, f, err)
			continue
		}
		if k := p.cursor.ids[f.ID]; k != nil { // it has another name, or was recovered
			p.remember(fact(e, f.ID, k.state))
			continue
		}
		if len(before) > 0 && !before[f.ID] {
			later = append(later, e)
			continue
		}
		if f.ID == p.late && len(entries) > 0 { // the others first
			p.late = ID{}
			p.tries[e.name]++
			entries = append(entries, e)
			continue
		}
		size += e.size
		b.Files, of = append(b.Files, f), append(of, e)
	}
	entries = append(later, entries...)
	if len(b.Files) == 0 {
		return nil, nil, entries
	}
	b.done = p.parts[b.ID()]
	return b, of, entries
}

// unreadable notes that a file cannot be read. It is parked if its content is at fault.
func (p *Pusher) unreadable(e entry, f *File, err error) {
	bad := (*reader.FormatError)(nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.vanished(e)
	case !errors.As(err, &bad): // such as missing permission
		p.once("cannot be read now", "file", e.name, "error", err.Error())
	case p.dir.finished(e, time.Now()): // otherwise it is a new one of this name
		p.metrics.file("unreadable", 0)
		p.park(e, f, fmt.Errorf("cannot be read: %w", err))
	}
}

// vanished notes that the program has deleted a file before it was sent.
func (p *Pusher) vanished(e entry) {
	p.metrics.file("vanished", 0)
	p.log.Warn("deleted before it was sent", "file", e.name)
}

// send sends a batch, in smaller ones if need be. It returns the files that are to be sent again
// later. The error is that of a Pusher that gives up.
func (p *Pusher) send(ctx context.Context, b *Batch, of []entry) (again []entry, err error) {
	if len(b.Files) > 1 || b.Files[0].Goroutines >= p.many {
		var ids []ID
		for _, f := range b.Files {
			ids = append(ids, f.ID)
		}
		p.remember(batchLine(ids))
	}
	begin := time.Now()
	within, cancel := p.draining(ctx)
	err = p.o.Target.Send(within, b)
	cancel()
	took := time.Since(begin)
	p.metrics.batch(took, err)
	var (
		bad     *FileError
		refused *RefusedError
		large   *TooLargeError
	)
	switch {
	case err == nil:
		p.sent(b, of)
		return nil, nil
	case errors.As(err, &bad):
		i := slices.Index(b.Files, bad.File)
		if i < 0 {
			return nil, fmt.Errorf("the target reports a file that it was not given: %w", err)
		}
		p.forget(b)
		p.unreadable(of[i], bad.File, bad.Err)
		if b = b.without(bad.File); len(b.Files) == 0 {
			return nil, nil
		}
		return p.send(ctx, b, slices.Delete(slices.Clone(of), i, i+1))
	case errors.As(err, &large) && len(b.Files) > 1:
		return p.halves(ctx, b, of, (len(of)+1)/2)
	case errors.As(err, &refused) && len(b.Files) > 1:
		return p.halves(ctx, b, of, 1)
	case errors.As(err, &large), errors.As(err, &refused):
		p.forget(b)
		p.metrics.file("refused", b.Files[0].Size)
		p.park(of[0], b.Files[0], err)
		return nil, nil
	case ctx.Err() != nil: // the next start sends it
		return of, nil
	}
	p.keepParts(b)
	return of, p.wait(ctx, b, err, took)
}

// halves sends the first n files of a batch and the others apart.
func (p *Pusher) halves(ctx context.Context, b *Batch, of []entry, n int) (again []entry, err error) {
	p.forget(b)
	for _, part := range [2][2]int{{0, n}, {n, len(of)}} {
		failed, err := p.send(ctx, &Batch{Files: b.Files[part[0]:part[1]]}, of[part[0]:part[1]])
		if again = append(again, failed...); err != nil {
			return again, err
		}
	}
	return again, nil
}

// draining returns a context that ends some time after another one.
func (p *Pusher) draining(ctx context.Context) (context.Context, context.CancelFunc) {
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var timer *time.Timer
	started := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		timer = time.AfterFunc(p.o.Drain, cancel)
		close(started)
	})
	return within, func() {
		if !stop() {
			<-started
			timer.Stop()
		}
		cancel()
	}
}

// wait waits after a failure that took some time.
func (p *Pusher) wait(ctx context.Context, b *Batch, failure error, took time.Duration) error {
	p.failed++
	if p.o.Once && p.failed >= p.o.Tries {
		return errGivenUp{p.failed, failure}
	}
	most := p.o.Backoff << min(p.failed-1, 30)
	if most > p.o.MaxBackoff || most <= 0 {
		most = p.o.MaxBackoff
	}
	d := rand.N(most) + 1
	if retry := (*RetryError)(nil); errors.As(failure, &retry) && retry.After > 0 {
		// Not all at the same moment, but not before it.
		d = min(retry.After, longestRetry) + d/4
	}
	if p.lost += took + d; p.o.Once && p.lost > p.o.GiveUp {
		return errGivenUp{p.failed, fmt.Errorf("%w (the next try would be in %v)", failure, d.Round(time.Second))}
	}
	if p.failed == 1 || time.Since(p.told) > time.Minute {
		p.told = time.Now()
		p.log.Warn("cannot send now; trying again", "file", b.Files[0].Name, "error", failure, "failures", p.failed, "wait", d.Round(time.Millisecond))
	}
	p.metrics.waiting(d)
	p.sleep(ctx, d)
	p.metrics.waiting(0)
	return nil
}

// sent remembers that the target has a batch.
func (p *Pusher) sent(b *Batch, of []entry) {
	if p.failed > 0 {
		p.log.Info("sends again", "failures", p.failed)
		p.failed = 0
	}
	p.forget(b)
	var lines []line
	for i, f := range b.Files {
		lines = append(lines, fact(of[i], f.ID, stateSent))
		p.metrics.file("sent", f.Size)
	}
	p.remember(lines...)
}

// remember writes to the cursor. If that is not possible, for example because the disk is full,
// sending goes on: after a restart, files are sent again.
func (p *Pusher) remember(lines ...line) {
	err := p.cursor.write(lines...)
	if err != nil {
		p.metrics.cursorError()
		if !p.unsaved {
			p.log.Warn("the cursor cannot be saved; after a restart, files will be sent again", "error", err)
		}
	} else if p.unsaved {
		p.log.Info("the cursor is saved again")
	}
	p.unsaved = err != nil
}

// keepParts remembers which parts of a batch the target has.
func (p *Pusher) keepParts(b *Batch) {
	if len(p.parts) > 1000 { // of files that are gone
		clear(p.parts)
	}
	if len(b.done) > 0 {
		p.parts[b.ID()] = b.done
	}
}

func (p *Pusher) forget(b *Batch) { delete(p.parts, b.ID()) }

// park keeps a file for the user, since the target will not have it.
func (p *Pusher) park(e entry, f *File, why error) {
	deleted, err := p.parking.park(e.name, p.o.Name, why)
	if p.pruned += deleted; err != nil {
		p.log.Warn("refused, and cannot be parked", "file", e.name, "why", why, "error", err)
	} else {
		p.log.Warn("refused", "file", e.name, "why", why, "kept as", path.Join(refusedDir, e.name))
	}
	if f.ID == (ID{}) { // it could not be read
		f.ID = ID{}.Part(fmt.Sprint(e.name, e.size, e.mod.UnixNano()))
	}
	p.remember(fact(e, f.ID, stateRefused))
}
