package main

type limit struct{ slots, other chan struct{} }

func (l *limit) plain() {
	before()
	l.slots <- struct{}{}
	work() // held
	<-l.slots
	after()
}

func (l *limit) deferred() {
	l.slots <- struct{}{}
	defer func() { <-l.slots }()
	work() // held
} // held

func (l *limit) choose(done chan int) {
	select {
	case l.slots <- struct{}{}:
		work() // held
	case <-done:
		return
	}
	more() // held
	<-l.slots
}

func (l *limit) starts() {
	l.slots <- struct{}{}
	go func() {
		defer func() { <-l.slots }()
		work() // held
	}() // held
	after()
}

func (l *limit) acquire() { l.slots <- struct{}{} }

func (l *limit) release() { <-l.slots }

func (l *limit) wrapped() {
	l.acquire()
	defer l.release()
	work() // held
} // held

func (l *limit) another(log *logger) {
	log.acquire() // it is a method of something else
	work()
	l.release()
}

func (l *limit) sends() {
	l.slots <- struct{}{}
	after()
}

func (l *limit) others() {
	l.other <- struct{}{}
	after()
	<-l.other
}

type tokens struct{ free chan *int }

func (t *tokens) use() {
	token := <-t.free
	work(token) // held
	t.free <- token
	after()
}

func consume(jobs chan int, results chan []string) {
	for j := range jobs {
		results <- find(j)
	}
}
