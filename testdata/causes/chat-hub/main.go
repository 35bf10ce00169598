// A chat with sixty members who mostly listen. A hub passes on what one of them says.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type member struct {
	conn net.Conn
	out  chan string
}

type hub struct {
	join, leave chan *member
	said        chan string
}

func (h *hub) loop() {
	members := map[*member]bool{}
	for {
		select {
		case m := <-h.join:
			members[m] = true
		case m := <-h.leave:
			delete(members, m)
			close(m.out)
		case text := <-h.said:
			for m := range members {
				select {
				case m.out <- text:
				default: // it is behind
				}
			}
		}
	}
}

func (h *hub) listen(m *member) {
	h.join <- m
	defer func() { h.leave <- m }()
	lines := bufio.NewScanner(m.conn)
	for lines.Scan() {
		h.said <- lines.Text()
	}
}

func (h *hub) speak(m *member) {
	for text := range m.out {
		fmt.Fprintln(m.conn, text)
	}
	m.conn.Close()
}

func main() {
	defer profiler.Start().Stop()
	ctx := run.Context()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	h := &hub{make(chan *member), make(chan *member), make(chan string)}
	go h.loop()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m := &member{c, make(chan string, 16)}
			go h.listen(m)
			go h.speak(m)
		}
	}()
	run.Beside("members", l.Addr().String())
	<-ctx.Done()
}

func init() { run.Register("members", members) }

// members are people: ADDRESS.
func members(args []string) (string, error) {
	for n := range 60 {
		c, err := net.Dial("tcp", args[0])
		if err != nil {
			return "", err
		}
		go bufio.NewReader(c).WriteTo(discard{})
		go func() {
			for range time.Tick(time.Duration(2000+100*n) * time.Millisecond) {
				fmt.Fprintln(c, "member", n, "says hello")
			}
		}()
	}
	return "members are there", nil
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
