//go:build !small

package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
)

func init() {
	loads["grpc"], loads["service"] = grpcServer, service
	askers["grpc"] = func(address string) (func(), error) {
		c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		client := health.NewHealthClient(c)
		return func() { client.Check(context.Background(), &health.HealthCheckRequest{}) }, nil
	}
}

type checker struct {
	health.UnimplementedHealthServer
	check func()
}

func (c checker) Check(context.Context, *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	timed("grpc", c.check)
	return &health.HealthCheckResponse{}, nil
}

// serveGRPC serves calls, and returns the address.
func serveGRPC(check func()) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := grpc.NewServer()
	health.RegisterHealthServer(s, checker{check: check})
	go s.Serve(l)
	return l.Addr().String(), nil
}

// grpcServer has calls of which one in eight waits for longer.
func grpcServer(stop <-chan struct{}, _ string) error {
	address, err := serveGRPC(func() {
		computing(100 * time.Microsecond)
		if rand.IntN(8) == 0 {
			time.Sleep(20*time.Millisecond + time.Duration(rand.Int64N(int64(40*time.Millisecond))))
		}
	})
	if err != nil {
		return err
	}
	return startClients(stop, "grpc", address, 8, time.Millisecond)
}

// service has HTTP and gRPC at once, with a store that has one lock. Each request has a goroutine
// of its own beside it.
func service(stop <-chan struct{}, _ string) error {
	var store sync.Mutex
	work := func(least time.Duration) {
		done := make(chan bool)
		go func() {
			store.Lock()
			computing(50 * time.Microsecond)
			store.Unlock()
			time.Sleep(least + time.Duration(rand.Int64N(int64(3*time.Millisecond))))
			done <- true
		}()
		<-done
	}
	rpc, err := serveGRPC(func() { work(0) })
	if err != nil {
		return err
	}
	address, err := handle("http", func(w http.ResponseWriter, _ *http.Request) {
		work(time.Millisecond)
		io.WriteString(w, "done")
	})
	if err != nil {
		return err
	}
	if err := startClients(stop, "grpc", rpc, 2, 0); err != nil {
		return err
	}
	return startClients(stop, "keep", address, 6, 0)
}
