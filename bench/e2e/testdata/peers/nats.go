//go:build !std

package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startNATS starts a server with JetStream, four clients that answer, and one that asks.
func startNATS() []client {
	dir, err := os.MkdirTemp("", "nats")
	check(err)
	atEnd = append(atEnd, func() { check(os.RemoveAll(dir)) })
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir})
	check(err)
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		panic("the NATS server does not start")
	}
	for range 4 {
		c, err := nats.Connect(s.ClientURL())
		check(err)
		_, err = c.QueueSubscribe("work", "workers", func(m *nats.Msg) {
			n, err := strconv.Atoi(string(m.Data))
			check(err)
			handle(n)
			check(m.Respond(m.Data))
		})
		check(err)
		check(c.Flush())
	}
	c, err := nats.Connect(s.ClientURL())
	check(err)
	js, err := jetstream.New(c)
	check(err)
	stream, err := js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "jobs", Subjects: []string{"jobs"}})
	check(err)
	consumer, err := stream.CreateConsumer(context.Background(), jetstream.ConsumerConfig{})
	check(err)
	_, err = consumer.Consume(func(m jetstream.Msg) {
		handle(2)
		check(m.Ack())
	})
	check(err)
	return []client{func(ctx context.Context, n int) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := c.RequestWithContext(ctx, "work", []byte(strconv.Itoa(n)))
		return err
	}, func(ctx context.Context, n int) error {
		_, err := js.Publish(ctx, "jobs", []byte(strconv.Itoa(n)))
		time.Sleep(10 * time.Millisecond)
		return err
	}}
}
