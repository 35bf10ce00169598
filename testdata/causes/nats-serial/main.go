// A service on NATS that checks addresses. Its subscription calls it for one message after the other, and each check asks
// another service.
package main

import (
	"io"
	"log"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

type checker struct{ maps string }

func (c *checker) check(m *nats.Msg) {
	resp, err := http.Get(c.maps + "/" + string(m.Data)) // planted
	if err != nil {
		m.Respond([]byte(err.Error()))
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		answer = []byte(err.Error())
	}
	m.Respond(answer)
}

func main() {
	defer profiler.Start().Stop()
	ctx := run.Context()
	bus := run.Beside("nats")
	conn, err := nats.Connect(bus)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	c := &checker{run.Beside("http", "6ms", "5")}
	if _, err := conn.Subscribe("address.check", c.check); err != nil { // planted
		log.Fatal(err)
	}
	shops, err := nats.Connect(bus)
	if err != nil {
		log.Fatal(err)
	}
	defer shops.Close()
	for range 8 {
		go func() {
			for ctx.Err() == nil {
				shops.Request("address.check", []byte("bern"), time.Second) // planted
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	<-ctx.Done()
}

func init() { run.Register("nats", bus) }

func bus([]string) (string, error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true})
	if err != nil {
		return "", err
	}
	s.Start()
	if !s.ReadyForConnections(5 * time.Second) {
		return "", nats.ErrNoServers
	}
	return s.ClientURL(), nil
}
