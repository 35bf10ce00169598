//go:build !small

package main

import (
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

func init() {
	loads["nats"] = natsServer
	idles["nats"] = func(folder string) error {
		_, err := startNATS(folder)
		return err
	}
}

// natsServer has a stream in JetStream, with publishers and a consumer.
func natsServer(stop <-chan struct{}, folder string) error {
	s, err := startNATS(folder)
	if err != nil {
		return err
	}
	c, err := nats.Connect(s.ClientURL())
	if err != nil {
		return err
	}
	js, err := c.JetStream()
	if err != nil {
		return err
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "s", Subjects: []string{"s.*"}, MaxBytes: 64 << 20}); err != nil {
		return err
	}
	if _, err := js.Subscribe("s.*", func(m *nats.Msg) { m.Ack() }); err != nil {
		return err
	}
	for range 4 {
		p, err := nats.Connect(s.ClientURL())
		if err != nil {
			return err
		}
		js, err := p.JetStream()
		if err != nil {
			return err
		}
		payload := make([]byte, 256)
		go until(stop, func() { js.Publish("s.a", payload) })
	}
	return nil
}

func startNATS(folder string) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: filepath.Join(folder, "jetstream"), NoSigs: true})
	if err != nil {
		return nil, err
	}
	go s.Start()
	s.ReadyForConnections(10 * time.Second)
	return s, nil
}
