// Package run is what the programs of the catalogue share: how long they run, and what runs beside them in processes of
// its own, such as clients and the servers that a program asks.
package run

import (
	"bufio"
	"context"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

var length = flag.Duration("d", 4*time.Second, "how long to run")

// Context returns a context that is done when the program's time is over.
func Context() context.Context {
	if !flag.Parsed() {
		flag.Parse()
	}
	ctx, cancel := context.WithTimeout(context.Background(), *length)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// Serve serves h until the program's time is over. So many clients in another process send requests for path, each
// the next one after a rest.
func Serve(h http.Handler, path string, clients int, rest time.Duration) {
	ctx := Context()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go server.Serve(l)
	if clients > 0 {
		Beside("clients", "http://"+l.Addr().String()+path, strconv.Itoa(clients), rest.String())
	}
	<-ctx.Done()
	server.Close()
}

// Beside runs what is registered as name in another process, which ends with this one, and returns the line that it
// prints.
func Beside(name string, args ...string) string {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "CAUSES_BESIDE="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	open = append(open, in)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		log.Fatal(name, ": ", err)
	}
	return strings.TrimSpace(line)
}

var open []io.Closer // the other processes end when these are closed

// Register names what other processes can do. It is called while packages are initialised, and does not return in such
// a process.
func Register(name string, do func(args []string) (line string, err error)) {
	if os.Getenv("CAUSES_BESIDE") != name {
		return
	}
	line, err := do(os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.WriteString(line + "\n")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
