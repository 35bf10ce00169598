package main

import (
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// slowResponder runs a NATS server, a service that answers for prices, and 20 clients that ask it. The service keeps
// exchange rates. When they are three seconds old, the next question loads them anew, and the others wait for it.
func slowResponder(string) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	check(err)
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		panic("the NATS server does not start")
	}
	service, err := nats.Connect(s.ClientURL())
	check(err)
	r := &rates{}
	_, err = service.Subscribe("price", func(m *nats.Msg) { go answerPrice(r, m) })
	check(err)
	check(service.Flush())
	for i := range 20 {
		c, err := nats.Connect(s.ClientURL())
		check(err)
		go func() {
			for range time.Tick(250 * time.Millisecond) {
				askPrice(c, i)
			}
		}()
	}
}

func askPrice(c *nats.Conn, article int) {
	_, err := c.Request("price", []byte(strconv.Itoa(article)), time.Minute)
	check(err)
}

// answerPrice answers one question. It has a goroutine of its own.
func answerPrice(r *rates, m *nats.Msg) {
	article, err := strconv.Atoi(string(m.Data))
	check(err)
	rate := r.current()
	time.Sleep(5 * time.Millisecond) // looks the price up
	check(m.Respond([]byte(strconv.Itoa(article * rate))))
}

// rates are exchange rates.
type rates struct {
	mu     sync.Mutex
	loaded time.Time
	rate   int
}

func (r *rates) current() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.loaded) > 3*time.Second {
		r.load()
	}
	return r.rate
}

// load stands for a call of a slow service.
func (r *rates) load() {
	time.Sleep(150 * time.Millisecond)
	r.loaded = time.Now()
	r.rate++
}
