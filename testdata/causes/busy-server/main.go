// A server that uses half of its cores: it looks up a user in its memory and signs the answer.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type user struct {
	Name  string   `json:"name"`
	Roles []string `json:"roles"`
}

type users struct {
	mu  sync.RWMutex
	all map[string]user
}

func (u *users) find(id string) (user, bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	x, ok := u.all[id]
	return x, ok
}

func (u *users) token(w http.ResponseWriter, r *http.Request) {
	x, ok := u.find(r.PathValue("id"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	text, err := json.Marshal(x)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	sum := text
	for range 3000 {
		h := hmac.New(sha256.New, []byte("secret"))
		h.Write(sum)
		sum = h.Sum(nil)
	}
	fmt.Fprintf(w, "%s.%x\n", text, sum)
}

func main() {
	defer profiler.Start().Stop()
	u := &users{all: map[string]user{}}
	for i := range 1000 {
		u.all[strconv.Itoa(i)] = user{"user" + strconv.Itoa(i), []string{"reader"}}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /token/{id}", u.token)
	run.Serve(mux, "/token/7", 4, 8*time.Millisecond)
}
