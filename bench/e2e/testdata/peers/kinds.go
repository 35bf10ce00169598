//go:build !std

package main

func init() {
	kinds["xhttp2"], kinds["grpc"], kinds["sql"], kinds["nats"], kinds["redis"] = startXHTTP2, startGRPC, startSQL, startNATS, startRedis
}
