// A mail filter whose rules come from a file that can change, so it compiles them for each mail.
package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type mails struct{ rules []string }

func (m *mails) spam(text string) bool {
	rule := "(?i)" + strings.Join(m.rules, "|")
	return regexp.MustCompile(rule).MatchString(text) // planted
}

func main() {
	defer profiler.Start().Stop()
	m := &mails{}
	for i := range 120 {
		m.rules = append(m.rules, fmt.Sprintf(`\bwin\s+%d,000\s+(dollars|euros)\b`, i+1))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /mail/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, m.spam("You win 7,000 euros, "+r.PathValue("id")))
	})
	run.Serve(mux, "/mail/*", 3, 10*time.Millisecond)
}
