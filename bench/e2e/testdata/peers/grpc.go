//go:build !std

package main

import (
	"context"
	"io"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

type healthServer struct {
	health.UnimplementedHealthServer
}

func (healthServer) Check(_ context.Context, r *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	n, err := strconv.Atoi(r.Service)
	check(err)
	handle(n)
	return &health.HealthCheckResponse{}, nil
}

// Watch sends three answers.
func (healthServer) Watch(r *health.HealthCheckRequest, stream grpc.ServerStreamingServer[health.HealthCheckResponse]) error {
	n, err := strconv.Atoi(r.Service)
	check(err)
	for range 3 {
		handle(n)
		if err := stream.Send(&health.HealthCheckResponse{}); err != nil {
			return err
		}
	}
	return nil
}

// startGRPC starts a server with workers and keepalive, and one without.
func startGRPC() []client {
	var list []client
	for _, o := range [][]grpc.ServerOption{nil, {grpc.NumStreamWorkers(8), grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Hour})}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		s := grpc.NewServer(o...)
		health.RegisterHealthServer(s, healthServer{})
		go func() { check(s.Serve(l)) }()
		c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Hour}))
		check(err)
		stub := health.NewHealthClient(c)
		list = append(list, func(ctx context.Context, n int) error {
			if n%3 > 0 {
				_, err := stub.Check(ctx, &health.HealthCheckRequest{Service: strconv.Itoa(n)})
				return err
			}
			stream, err := stub.Watch(ctx, &health.HealthCheckRequest{Service: strconv.Itoa(n)})
			if err != nil {
				return err
			}
			for {
				if _, err := stream.Recv(); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
			}
		})
	}
	return list
}
