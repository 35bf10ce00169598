// Four workers take jobs from a queue of NATS. There are fewer jobs than they could do.
package main

import (
	"crypto/sha256"
	"fmt"
	"log"
	"strconv"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

func work(conn *nats.Conn) error {
	sub, err := conn.QueueSubscribeSync("jobs", "workers")
	if err != nil {
		return err
	}
	for {
		m, err := sub.NextMsg(time.Minute)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(m.Data)
		for range 500 {
			sum = sha256.Sum256(sum[:])
		}
		if err := conn.Publish("done", fmt.Appendf(nil, "%x", sum)); err != nil {
			return err
		}
	}
}

func main() {
	defer profiler.Start().Stop()
	ctx := run.Context()
	conn, err := nats.Connect(run.Beside("jobs"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	for range 4 {
		go func() {
			if err := work(conn); err != nil && ctx.Err() == nil {
				log.Print(err)
			}
		}()
	}
	<-ctx.Done()
}

func init() { run.Register("jobs", jobs) }

// jobs is a server of NATS, to which somebody sends a job each 10 ms.
func jobs([]string) (string, error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true})
	if err != nil {
		return "", err
	}
	s.Start()
	if !s.ReadyForConnections(5 * time.Second) {
		return "", nats.ErrNoServers
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		return "", err
	}
	go func() {
		for n := 0; ; n++ {
			time.Sleep(10 * time.Millisecond)
			conn.Publish("jobs", []byte(strconv.Itoa(n)))
		}
	}()
	return s.ClientURL(), nil
}
