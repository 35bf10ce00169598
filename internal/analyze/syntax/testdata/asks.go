package main

func future(q *queue) {
	f := q.Apply(entry)
	f.Error() // asks
}

func each(q *queue) {
	for range 3 {
		f, err := q.Apply(entry)
		if err == nil && f.Error() != nil { // asks
			q.Next()
		}
	}
	q.Apply(entry).Error() // asks
	q.Messages().Next()
}

func answer(q *queue) int {
	done, other := make(chan int), 3
	reply := make(chan int)
	q.jobs <- job{reply}
	<-done
	return <-reply // asks
}

func canceled(ctx context.Context, q *queue) {
	reply := make(chan int)
	select { // asks
	case <-ctx.Done():
	case v := <-reply: // asks
		q.use(v)
	}
}

func consume(q *queue) {
	sub := q.Subscribe()
	for {
		sub.Next()
		<-sub.messages
		select {
		case m := <-sub.messages:
			q.use(m)
		}
	}
}

func timed(q *queue) {
	for {
		timer := time.NewTimer(q.delay)
		ctx, cancel := context.WithTimeout(q.ctx, q.delay)
		select {
		case m := <-q.messages:
			q.use(m)
		case <-timer.C:
		case <-ctx.Done():
		}
		<-timer.C
		<-ctx.Done()
		q.messages <- 3
	}
}

func literal(q *queue) {
	f := q.Apply(entry)
	go func() {
		f.Error()
	}()
}

func serve(q *queue, jobs chan job) {
	for range q.jobs { // ranges
		for j := range jobs { // ranges
			q.use(j)
		}
	}
	rows := q.Query()
	for row := range rows {
		q.use(row)
	}
	for row := range q.Query() {
		q.use(row)
	}
}
