package main // the source of a profiled program; holders_test.go names lines of it

func (c *cache) get() {
	c.mu.Lock()
	c.work()
	c.mu.Unlock()
}

func (c *cache) refresh() {
	c.mu.Lock()
	c.load()
	c.mu.Unlock()
	c.pause()
}

func move(from, to *cache) {
	from.mu.Lock()
	to.mu.Lock()
	from.work()
	to.mu.Unlock()
	from.mu.Unlock()
}

func (c *cache) await() {
	c.mu.Lock()
	c.ready.Wait()
	c.mu.Unlock()
}

func (b *box) take() {
	<-b.items
	b.open()
}

func (b *box) fill() {
	b.load()
	b.items <- 1
	b.load()
}

func produce(out chan<- int) {
	out <- 1
}

func drain(in <-chan int) {
	for {
		consume(<-in)
	}
}

func sink(numbers <-chan int) {
	for {
		consume(<-numbers)
	}
}

func limited(run func(func())) {
	run(func() { <-slots })
}

func (s *shop) ask() {
	rows := s.small.Query()
	s.work(rows)
	rows.Close()
	s.rest()
}

func (s *shop) report() {
	tx := s.big.Begin()
	defer tx.Rollback()
	s.work(tx)
}

func (s *shop) move() {
	tx := s.small.Begin()
	defer tx.Rollback()
	s.work(tx)
}
