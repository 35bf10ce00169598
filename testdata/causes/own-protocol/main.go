// Rooms are asked for with a new connection each time, in a protocol of the hotel's own. An answer takes 15 ms.
package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type hotel struct{ address string }

func (h *hotel) free(room string) (string, error) {
	c, err := net.Dial("tcp", h.address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET /%s HTTP/1.0\r\n\r\n", room); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n') // planted
}

func main() {
	defer profiler.Start().Stop()
	h := &hotel{strings.TrimPrefix(run.Beside("http", "15ms", "20"), "http://")}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /free/{room}", func(w http.ResponseWriter, r *http.Request) {
		line, err := h.free(r.PathValue("room"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, line)
	})
	run.Serve(mux, "/free/*", 5, 10*time.Millisecond)
}
