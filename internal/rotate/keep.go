package rotate

// keepAround is how long before and after the moment that is worth keeping files are kept, in µs.
// No more than one moment in such a time counts.
const keepAround = 60_000_000

// mostReason is the length in bytes to which the reason for a file is cut: it is in each record of
// the progress.
const mostReason = 200

// Keep keeps the files with samples of the minute before and after a time, in µs, apart from the
// others: both have the limits of Options, each by itself. The file that is being written gets the
// reason, and so does the next one if it begins within a minute. Keep returns false if it was
// called for a time less than a minute before. Any goroutine may call it.
func (w *Writer) Keep(at uint64, reason string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keepAt != 0 && at < w.keepAt+keepAround {
		return false
	}
	w.keepAt, w.why = at, reason[:min(len(reason), mostReason)]
	for i := range w.finished {
		w.finished[i].kept = w.finished[i].kept || w.finished[i].end+keepAround >= at
	}
	return true
}

// reason returns why a file with samples between two times, in µs, is kept; "" if nobody asked for
// that.
func (w *Writer) reason(from, to uint64) (why string) {
	w.mu.Lock()
	if w.keepAt != 0 && from <= w.keepAt+keepAround && to+keepAround >= w.keepAt {
		why = w.why
	}
	w.mu.Unlock()
	return why
}
