// Uploads. Each is synced to the disk before it is answered.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type uploads struct{ dir string }

func (u *uploads) keep(name string, r io.Reader) error {
	f, err := os.CreateTemp(u.dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, r); err != nil {
		return err
	}
	if err := f.Sync(); err != nil { // planted
		return err
	}
	return os.Rename(f.Name(), filepath.Join(u.dir, name))
}

func main() {
	defer profiler.Start().Stop()
	dir, err := os.MkdirTemp(".", "uploads") // temporary folders may be in memory
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	u := &uploads{dir}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /upload/{name}", func(w http.ResponseWriter, r *http.Request) {
		if err := u.keep(r.PathValue("name"), bytes.NewReader(make([]byte, 8192))); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "kept")
	})
	run.Serve(mux, "/upload/photo", 4, 2*time.Millisecond)
}
