package run

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

func init() {
	Register("clients", clients)
	Register("readers", readers)
	Register("http", answers)
	Register("https", answersTLS)
	Register("dns", names)
}

// clients sends requests: URL N REST.
func clients(args []string) (string, error) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return "", err
	}
	rest, err := time.ParseDuration(args[2])
	if err != nil {
		return "", err
	}
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	var count atomic.Int64
	for i := range n {
		go func() {
			time.Sleep(rest / time.Duration(n) * time.Duration(i))
			for {
				r, err := c.Get(strings.ReplaceAll(args[0], "*", strconv.FormatInt(count.Add(1), 10)))
				if err == nil {
					io.Copy(io.Discard, r.Body)
					r.Body.Close()
				}
				time.Sleep(rest)
			}
		}()
	}
	return "clients run", nil
}

// readers send requests and read the answers slowly: URL N REST, a rest after each 64 KiB.
func readers(args []string) (string, error) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return "", err
	}
	rest, err := time.ParseDuration(args[2])
	if err != nil {
		return "", err
	}
	for range n {
		go func() {
			for {
				r, err := http.Get(args[0])
				for err == nil {
					_, err = io.CopyN(io.Discard, r.Body, 64<<10)
					time.Sleep(rest)
				}
				if r != nil {
					r.Body.Close()
				}
			}
		}()
	}
	return "readers run", nil
}

// handler answers each request after a delay: DELAY SIZE BROKEN. Of BROKEN requests one is answered with 503.
func handler(args []string) (http.Handler, error) {
	delay, err := time.ParseDuration(args[0])
	if err != nil {
		return nil, err
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	broken := 0
	if len(args) > 2 {
		if broken, err = strconv.Atoi(args[2]); err != nil {
			return nil, err
		}
	}
	body := make([]byte, size)
	var count atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := delay
		if x, err := time.ParseDuration(r.FormValue("delay")); err == nil {
			d = x
		}
		time.Sleep(d)
		if broken > 0 && count.Add(1)%int64(broken) == 0 {
			http.Error(w, "overloaded", http.StatusServiceUnavailable)
			return
		}
		w.Write(body)
	}), nil
}

// answers serves a handler and returns its URL.
func answers(args []string) (string, error) {
	h, err := handler(args)
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go http.Serve(l, h)
	return "http://" + l.Addr().String(), nil
}

// answersTLS does so with TLS and a certificate that nobody knows. Its handshakes take as long as the delay says.
func answersTLS(args []string) (string, error) {
	delay, err := time.ParseDuration(args[0])
	if err != nil {
		return "", err
	}
	h, err := handler([]string{"0s", args[1]})
	if err != nil {
		return "", err
	}
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		time.Sleep(delay) // the way there
		return nil, nil
	}}
	server.StartTLS()
	return server.URL, nil
}

// names is a DNS server on UDP that says after a delay that each name is 127.0.0.1: DELAY. It returns its address.
func names(args []string) (string, error) {
	delay, err := time.ParseDuration(args[0])
	if err != nil {
		return "", err
	}
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		for {
			b := make([]byte, 512)
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			time.AfterFunc(delay, func() { c.WriteTo(resolved(b[:n]), from) })
		}
	}()
	return c.LocalAddr().String(), nil
}

// resolved returns the answer to a question.
func resolved(q []byte) []byte {
	end := 12 // of the name
	for end < len(q) && q[end] != 0 {
		end += 1 + int(q[end])
	}
	if end+5 > len(q) {
		return q
	}
	a := append([]byte{}, q[:end+5]...)
	copy(a[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	if q[end+2] == 1 { // an address of IPv4
		a[7] = 1
		a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1)
	}
	return a
}
