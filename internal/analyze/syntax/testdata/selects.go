package main

func (p *parser) lines(events chan<- event, done <-chan struct{}) {
	for {
		select { // offers events
		case events <- p.next():
		case <-done:
			return
		}
		select { // offers p.slots
		case p.slots <- struct{}{}:
		case <-p.ctx.Done():
		case <-time.After(time.Second):
		}
		select { // may have work
		case e := <-p.in:
			p.use(e)
		case p.out <- p.first():
		}
		select { // only receives
		case <-p.wake:
		case <-done:
		}
		go func() {
			select { // offers events
			case <-done:
			case events <- p.last():
			}
		}()
	}
}

func pump(wake <-chan struct{}, to chan<- event) {
	var out chan<- event
	second := to
	for {
		if len(queue) > 0 {
			out = to
		}
		select { // may have nothing
		case out <- queue[0]:
		case <-wake:
		}
		select { // may have nothing
		case second <- queue[0]:
			second = nil
		case <-wake:
		}
	}
}
