// Readers of a log parse its lines faster than the one goroutine at the end of the channel sends them on.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"

	"causes/run"

	"github.com/gotach/profiler"
)

type event struct {
	user   string
	status int
}

// parse reads the lines of a file.
func parse(file int, events chan<- event, done <-chan struct{}) {
	for n := 0; ; n++ {
		fields := strings.Fields(fmt.Sprintf("user%d GET /file/%d %d", n%100, file, 200+n%5))
		status, err := strconv.Atoi(fields[3])
		if err != nil {
			continue
		}
		select {
		case events <- event{fields[0], status}: // planted
		case <-done:
			return
		}
	}
}

// upload sends events to the archive, twenty at a time.
func upload(archive string, events <-chan event) {
	var b bytes.Buffer
	n := 0
	for e := range events { // planted
		fmt.Fprintln(&b, e.user, e.status)
		if n++; n%20 != 0 {
			continue
		}
		resp, err := http.Post(archive, "text/plain", &b) // planted
		if err != nil {
			log.Print(err)
			continue
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		b.Reset()
	}
}

func main() {
	defer profiler.Start().Stop()
	ctx := run.Context()
	events := make(chan event, 20)
	go upload(run.Beside("http", "6ms", "2"), events)
	for file := range 6 {
		go parse(file, events, ctx.Done())
	}
	<-ctx.Done()
}
