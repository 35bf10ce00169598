// A service sends all changes to its subscribers, one after the other. One of them reads slowly, so gRPC's flow control
// stops the stream to it, and with that the others.
package main

import (
	"context"
	"log"
	"net"
	"strings"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type feed struct{ subscribers chan grpc.ServerStream }

func (f *feed) watch(_ any, stream grpc.ServerStream) error {
	f.subscribers <- stream
	<-stream.Context().Done()
	return nil
}

// publish sends each change to all.
func (f *feed) publish(ctx context.Context, changes <-chan string) {
	var streams []grpc.ServerStream
	for {
		select {
		case s := <-f.subscribers:
			streams = append(streams, s)
		case change := <-changes:
			for _, s := range streams {
				s.SendMsg(wrapperspb.String(change)) // planted
			}
		case <-ctx.Done():
			return
		}
	}
}

func main() {
	defer profiler.Start().Stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	f := &feed{make(chan grpc.ServerStream)}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "feed.Changes",
		HandlerType: (*any)(nil),
		Streams:     []grpc.StreamDesc{{StreamName: "Watch", Handler: f.watch, ServerStreams: true}},
	}, f)
	go server.Serve(l)
	ctx, changes := run.Context(), make(chan string)
	go f.publish(ctx, changes)
	for _, rest := range []string{"0s", "0s", "20ms"} {
		run.Beside("subscriber", l.Addr().String(), rest)
	}
	for range 4 { // tables of a database
		go func() {
			for ctx.Err() == nil {
				select {
				case changes <- strings.Repeat("row ", 2000): // planted
				case <-ctx.Done():
				}
				time.Sleep(2 * time.Millisecond)
			}
		}()
	}
	<-ctx.Done()
	server.Stop()
}

func init() { run.Register("subscriber", subscribe) }

// subscribe reads changes: ADDRESS REST.
func subscribe(args []string) (string, error) {
	rest, err := time.ParseDuration(args[1])
	if err != nil {
		return "", err
	}
	conn, err := grpc.NewClient(args[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	stream, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, "/feed.Changes/Watch")
	if err != nil {
		return "", err
	}
	if err := stream.SendMsg(&wrapperspb.StringValue{}); err != nil {
		return "", err
	}
	go func() {
		for stream.RecvMsg(&wrapperspb.StringValue{}) == nil {
			time.Sleep(rest)
		}
	}()
	return "subscribed", nil
}
