// A cache of compiled templates for the whole process. What is missing is compiled under its lock.
package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"text/template"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

var cache = struct {
	sync.Mutex
	templates map[string]*template.Template
}{templates: map[string]*template.Template{}}

func lookUp(name string) (*template.Template, error) {
	cache.Lock() // planted
	defer cache.Unlock()
	if t := cache.templates[name]; t != nil {
		return t, nil
	}
	t, err := template.New(name).Parse(strings.Repeat("{{if .Name}}Dear {{.Name}},{{else}}Hello{{end}}\n", 150)) // planted
	if err != nil {
		return nil, err
	}
	if len(cache.templates) > 20 {
		clear(cache.templates)
	}
	cache.templates[name] = t
	return t, nil
}

func letter(w http.ResponseWriter, r *http.Request) {
	t, err := lookUp(r.PathValue("name"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, t.Name())
}

func main() {
	defer profiler.Start().Stop()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /letter/{name}", letter)
	run.Serve(mux, "/letter/*", 8, 5*time.Millisecond)
}
