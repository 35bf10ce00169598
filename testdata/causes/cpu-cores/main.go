// A server for sign-ins that hashes passwords. Sixteen people at a time are more than its cores can do.
package main

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type accounts struct{ salt []byte }

func (a *accounts) hash(password string) (string, error) {
	key, err := pbkdf2.Key(sha256.New, password, a.salt, 20_000, 32) // planted
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(key), nil
}

func (a *accounts) signIn(w http.ResponseWriter, r *http.Request) {
	hash, err := a.hash(r.PathValue("name"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, hash)
}

func main() {
	defer profiler.Start().Stop()
	a := &accounts{salt: []byte("pepper")}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sign-in/{name}", a.signIn)
	run.Serve(mux, "/sign-in/user*", 16, time.Millisecond)
}
