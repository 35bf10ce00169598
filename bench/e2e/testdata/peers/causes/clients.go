package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/panjf2000/ants/v2"
	"github.com/redis/go-redis/v9"
	"github.com/sourcegraph/conc/pool"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
)

// The names of waits for an answer.
const (
	ofPostgres, ofRedis, ofNATS = "name:a response of PostgreSQL", "name:a response of Redis", "name:a response of NATS"
	ofGRPC, nextOfGRPC          = "name:a response of a gRPC server", "name:a message of a gRPC server"
	nextOfNATS                  = "name:a message of NATS"
)

// listen calls a function for each connection, and returns the address.
func listen(serve func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	start(func() {
		for {
			c, err := l.Accept()
			check(err)
			start(func() { serve(c) })
		}
	})
	return l.Addr().String()
}

// servePostgres answers each query after some milliseconds, with one row.
func servePostgres(c net.Conn) {
	b := pgproto3.NewBackend(c, c)
	_, err := b.ReceiveStartupMessage()
	check(err)
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for n := 0; b.Flush() == nil; n++ {
		m, err := b.Receive()
		if err != nil {
			return
		}
		status := byte('I')
		if q, ok := m.(*pgproto3.Query); !ok {
			continue
		} else if strings.HasPrefix(q.String, "begin") {
			status = 'T'
		}
		pause(5, n)
		b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("n"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1}}})
		b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("1")}})
		b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: status})
	}
}

// newPgx returns a pool whose connections say that who has one is a cause, and waits for an answer.
func newPgx(address, name string, conns int) *pgxpool.Pool {
	c, err := pgxpool.ParseConfig(fmt.Sprintf("postgres://a@%s/a?sslmode=disable&default_query_exec_mode=simple_protocol&pool_max_conns=%d", address, conns))
	check(err)
	c.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
		label("is", name)
		label("until", ofPostgres)
		return true, nil
	}
	p, err := pgxpool.NewWithConfig(context.Background(), c)
	check(err)
	return p
}

type books struct{ small, big *pgxpool.Pool }

// pgxPools are a pool of three connections, and a big one.
func pgxPools(stop <-chan struct{}) {
	address := listen(servePostgres)
	b := &books{newPgx(address, "small", 3), newPgx(address, "big", 20)}
	for _, f := range []func(int){b.one, b.one, b.rows, b.tx, b.acquired, b.beginFunc, b.other, b.other} {
		start(func() {
			until(stop, func(n int) {
				label("until", "small")
				f(n)
				label("until", "")
				label("is", "")
				pause(2, n)
			})
		})
	}
}

func (b *books) one(int) {
	var got string
	check(b.small.QueryRow(context.Background(), "select").Scan(&got))
}

func (b *books) other(int) {
	var got string
	check(b.big.QueryRow(context.Background(), "select").Scan(&got))
}

func (b *books) rows(n int) {
	rows, err := b.small.Query(context.Background(), "select")
	label("until", "")
	check(err)
	for rows.Next() {
		writeOut(n)
	}
	rows.Close()
}

func (b *books) tx(n int) {
	tx, err := b.small.Begin(context.Background())
	label("until", "")
	check(err)
	compute(n)
	label("until", ofPostgres)
	check(tx.Commit(context.Background()))
}

func (b *books) acquired(n int) {
	c, err := b.small.Acquire(context.Background())
	label("until", "")
	check(err)
	defer c.Release()
	compute(n)
}

func (b *books) beginFunc(n int) {
	check(pgx.BeginFunc(context.Background(), b.small, func(pgx.Tx) error {
		label("until", "")
		compute(n)
		label("until", ofPostgres)
		return nil
	}))
}

// serveRedis answers each command after some milliseconds.
func serveRedis(c net.Conn) {
	r := bufio.NewReader(c)
	for n := 0; ; n++ {
		args := 0
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		_, err = fmt.Sscanf(line, "*%d", &args)
		check(err)
		command := ""
		for range 2 * args { // each has a line with its length before it
			line, err = r.ReadString('\n')
			check(err)
			command += line
		}
		answer := "+OK\r\n"
		if strings.Contains(strings.ToLower(command), "hello") {
			answer = "-ERR unknown command\r\n"
		}
		pause(4, n)
		if _, err := c.Write([]byte(answer)); err != nil {
			return
		}
	}
}

// A redisConn says that who writes to it has the connection.
type redisConn struct {
	net.Conn
	name string
}

func (c redisConn) Write(b []byte) (int, error) {
	label("is", c.name)
	label("until", ofRedis)
	return c.Conn.Write(b)
}

type cache struct{ small, big *redis.Client }

// redisPools are a client with two connections, and one with many.
func redisPools(stop <-chan struct{}) {
	address := listen(serveRedis)
	client := func(name string, size int) *redis.Client {
		return redis.NewClient(&redis.Options{Addr: address, PoolSize: size, PoolTimeout: time.Minute, Dialer: func(_ context.Context, network, address string) (net.Conn, error) {
			c, err := net.Dial(network, address)
			return redisConn{c, name}, err
		}})
	}
	x := &cache{client("small", 2), client("big", 20)}
	for _, f := range []func(int){x.get, x.get, x.get, x.watch, x.other, x.other} {
		start(func() {
			until(stop, func(n int) {
				label("until", "small")
				f(n)
				label("until", "")
				label("is", "")
				pause(1, n)
			})
		})
	}
}

func (x *cache) get(int)   { check(x.small.Set(context.Background(), "a", 1, 0).Err()) }
func (x *cache) other(int) { check(x.big.Set(context.Background(), "a", 1, 0).Err()) }

func (x *cache) watch(n int) {
	check(x.small.Watch(context.Background(), func(*redis.Tx) error {
		label("until", "")
		compute(n)
		return nil
	}, "a"))
}

// workers are a pool of ants and pools of conc.
func workers(stop <-chan struct{}) {
	a, err := ants.NewPool(3)
	check(err)
	for i := range 3 {
		start(func() {
			until(stop, func(n int) {
				wait("ants", func() {
					check(a.Submit(func() { forget(); be("ants", func() { pause(7+2*i, n) }) }))
				})
			})
		})
		start(func() {
			until(stop, func(n int) {
				name := fmt.Sprint("conc-", i)
				p := pool.New().WithMaxGoroutines(2)
				for range 10 {
					wait(name, func() { p.Go(func() { forget(); be(name, func() { pause(5+i, n) }) }) })
				}
				wait(name, p.Wait)
			})
		})
	}
}

type healthServer struct {
	health.UnimplementedHealthServer
}

func (healthServer) Check(context.Context, *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	pause(6, 1)
	return &health.HealthCheckResponse{}, nil
}

func (healthServer) Watch(_ *health.HealthCheckRequest, s grpc.ServerStreamingServer[health.HealthCheckResponse]) error {
	for n := range 4 {
		pause(5, n)
		check(s.Send(&health.HealthCheckResponse{}))
	}
	return nil
}

// clients are those of gRPC and NATS.
func clients(stop <-chan struct{}) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	s := grpc.NewServer()
	health.RegisterHealthServer(s, healthServer{})
	start(func() { check(s.Serve(l)) })
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	stub := health.NewHealthClient(c)
	messages, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	check(err)
	start(messages.Start)
	messages.ReadyForConnections(10 * time.Second)
	asks, err := nats.Connect(messages.ClientURL())
	check(err)
	tells, err := nats.Connect(messages.ClientURL())
	check(err)
	_, err = tells.Subscribe("work", func(m *nats.Msg) { start(func() { pause(6, 2); check(m.Respond(nil)) }) })
	check(err)
	news, err := asks.SubscribeSync("news")
	check(err)
	for i := range 3 {
		start(func() {
			until(stop, func(n int) {
				wait(ofGRPC, func() { _, err := stub.Check(context.Background(), &health.HealthCheckRequest{}); check(err) })
				wait(ofNATS, func() { _, err := asks.Request("work", nil, time.Minute); check(err) })
				pause(i, n)
			})
		})
	}
	start(func() {
		until(stop, func(n int) {
			s, err := stub.Watch(context.Background(), &health.HealthCheckRequest{})
			check(err)
			for name := ofGRPC; err == nil; name = nextOfGRPC {
				wait(name, func() { _, err = s.Recv() })
			}
		})
	})
	start(func() {
		until(stop, func(int) { wait(nextOfNATS, func() { _, err := news.NextMsg(time.Minute); check(err) }) })
	})
	start(func() { until(stop, func(n int) { check(tells.Publish("news", nil)); pause(8, n) }) })
}
