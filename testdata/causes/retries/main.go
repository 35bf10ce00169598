// Messages go to a gateway that is overloaded at times. Who sends one tries again after a while.
package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type sender struct {
	client  *http.Client
	gateway string
}

func (s *sender) send(text string) error {
	pause := 20 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := s.try(text)
		if err == nil || attempt == 5 {
			return err
		}
		time.Sleep(pause) // planted
		pause *= 2
	}
}

func (s *sender) try(text string) error {
	resp, err := s.client.Post(s.gateway, "text/plain", strings.NewReader(text))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("gateway: %s", resp.Status)
	}
	return nil
}

func main() {
	defer profiler.Start().Stop()
	s := &sender{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}, run.Beside("http", "2ms", "10", "2")}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /message/{to}", func(w http.ResponseWriter, r *http.Request) {
		if err := s.send("hello " + r.PathValue("to")); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, "sent")
	})
	run.Serve(mux, "/message/*", 5, 5*time.Millisecond)
}
