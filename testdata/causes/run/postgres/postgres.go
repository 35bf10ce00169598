// Package postgres is a database in another process, which answers each query after a delay.
package postgres

import (
	"net"
	"time"

	"causes/run"

	"github.com/jackc/pgx/v5/pgproto3"
)

func init() { run.Register("postgres", answers) }

// Start starts a database that takes a time for each query, and returns the name of the data source for pgx. A query has
// one row with one text.
func Start(delay time.Duration) string {
	return "postgres://app@" + run.Beside("postgres", delay.String()) + "/app?sslmode=disable&default_query_exec_mode=simple_protocol"
}

func answers(args []string) (string, error) {
	delay, err := time.ParseDuration(args[0])
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(pgproto3.NewBackend(c, c), delay)
		}
	}()
	return l.Addr().String(), nil
}

func serve(b *pgproto3.Backend, delay time.Duration) {
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		if _, ok := m.(*pgproto3.Query); !ok {
			continue
		}
		time.Sleep(delay)
		b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("name"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1}}})
		b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("tea")}})
		b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	}
}
