//go:build !std

package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// startRedis starts a client with few connections, so that requests wait for them too, and a subscriber.
// PEERS_REDIS is the address of a Redis.
func startRedis() []client {
	addr := os.Getenv("PEERS_REDIS")
	if addr == "" {
		panic("PEERS_REDIS is not set")
	}
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 3, PoolTimeout: time.Minute})
	sub := c.Subscribe(context.Background(), "news")
	_, err := sub.Receive(context.Background())
	check(err)
	go func() {
		for range sub.Channel() {
			handle(1)
		}
	}()
	return []client{func(ctx context.Context, n int) error {
		if n%10 == 3 {
			return c.Publish(ctx, "news", n).Err()
		}
		if err := c.Set(ctx, "key", n, 0).Err(); err != nil {
			return err
		}
		// It waits for an element that never comes, for at least a second with Redis's protocol version 2.
		if n%3 == 0 {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			err := c.BLPop(ctx, time.Second, "none").Err()
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.Nil) || ctx.Err() != nil {
				err = nil
			}
			return err
		}
		return c.Get(ctx, "key").Err()
	}}
}
