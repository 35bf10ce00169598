package push

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// secret is in everything that a target is given that is secret.
const secret = "S3CR/T"

// wrong are servers that have taken nothing. Some repeat what is secret.
var wrong = map[string]func(w http.ResponseWriter, r *http.Request){
	"login page": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!DOCTYPE html><form action=/login>")
	},
	"accepted":             answer(202, "application/x-protobuf", ""),
	"page of a wrong type": answer(200, "application/x-protobuf", "<html>please log in</html>"),
	"cut message":          answer(200, "application/x-protobuf", "\x0a\x05\x08"),
	"wrong JSON":           answer(200, "application/json", `{"error":"please log in"}`),
	"JSON and more":        answer(200, "application/json", `{}{"error":1}`),
	"no JSON":              answer(200, "application/json", "null"),
	"less than nothing":    answer(200, "application/json", `{"partialSuccess":{"rejectedProfiles":"-1"}}`),
	"found":                redirect(302),
	"moved for good":       redirect(308),
	"not allowed":          repeats(401),
	"forbidden":            answer(403, "text/plain", ""),
	"not found":            answer(404, "text/plain", ""),
	"no such method":       answer(405, "text/plain", ""),
	"down":                 repeats(503),
	"bad":                  repeats(400),
	"slow": func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // without that the server does not see that the client is gone
		<-r.Context().Done()
	},
	"slow body": func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Header().Set("Content-Length", "10")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	},
	"cut": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Header().Set("Content-Length", "10")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	},
	"cut before":                       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"no HTTP":                          raw("SSH-2.0-" + secret + "\r\n"),
	"64 KB that say nothing, and more": answer(200, "application/x-protobuf", "\x1a\x01x"+strings.Repeat("\x10\x01", 1<<19)),
	"a secret in the status":           raw("HTTP/1.1 503 " + secret + "\r\nContent-Length: 0\r\n\r\n"),
	"1 GB": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		b := make([]byte, 1<<20)
		for range 1 << 10 {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	},
}

// repeats answers with what is secret in a request.
func repeats(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprint("no ", r.URL, r.Header["Authorization"], r.Header["X-Token"]), code)
	}
}

// raw answers with a text and closes the connection.
func raw(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, b, _ := w.(http.Hijacker).Hijack()
		_, _ = b.WriteString(text)
		_ = errors.Join(b.Flush(), conn.Close())
	}
}

func answer(code int, kind, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// redirect sends to a server that takes everything.
func redirect(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/taken" {
			w.Header().Set("Content-Type", "application/x-protobuf")
			return
		}
		w.Header().Set("Location", "/taken")
		w.WriteHeader(code)
	}
}

// What a server has not taken in the way of its protocol is not sent, and nothing that is secret is in a message, an error or
// a file, whatever the server does. A file that it refuses is kept. Nothing is if the address or the password is wrong. A redirect is not
// followed: the header has the password.
func TestWrongServers(t *testing.T) {
	for name, serve := range wrong {
		for _, kind := range []string{"otlp", "pyroscope"}[:testenv.Brief(1, 2)] {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				server := httptest.NewUnstartedServer(http.HandlerFunc(serve))
				server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
				server.Start()
				defer server.Close()
				o := TargetOptions{}
				if strings.HasPrefix(name, "slow") {
					o.Timeout = 20 * time.Millisecond
				}
				tryWrong(t, kind+"+"+server.URL, o, name == "bad")
			})
		}
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(answer(200, "application/x-protobuf", "")))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	t.Run("wrong TLS name", func(t *testing.T) { // the certificate has the address only
		tryWrong(t, "otlp+"+strings.Replace(server.URL, "127.0.0.1", "localhost", 1), TargetOptions{CA: ca}, false)
	})
	t.Run("unknown authority", func(t *testing.T) { tryWrong(t, "otlp+"+server.URL, TargetOptions{}, false) })
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))
	must(l.Close())
	t.Run("nobody", func(t *testing.T) { tryWrong(t, "otlp+http://"+l.Addr().String(), TargetOptions{}, false) })
}

func tryWrong(t *testing.T, to string, o TargetOptions, refused bool) {
	dir := t.TempDir()
	process{pid: 7, program: "shop"}.file(t, filepath.Join(dir, "app.tach"), 1, true)
	m, log := NewMetrics(), &testenv.Log{}
	o.Metrics, o.Header = m, http.Header{"X-Token": {"Bearer S3CRh-eader"}}
	to = strings.Replace(to, "://", "://ann:"+strings.Replace(secret, "/", "%2F", 1)+"@", 1) + "?token=S3CRq-uery&short=~7~"
	target, name, key, err := Open(to, o)
	must(err)
	defer target.Close()
	err = push(t, Options{Dir: dir, Target: target, Name: name, Key: key, Once: true, Tries: 2, Backoff: time.Millisecond, Metrics: m, Log: log.Logger()})
	given := (errGivenUp{})
	testenv.FailIf(t, errors.As(err, &given) == refused, "the error is %v", err)
	testenv.Same(t, "files sent", m.Files("sent"), 0)
	testenv.Same(t, "the file is refused", m.Files("refused") == 1, refused)
	texts := fmt.Sprint(err, "\n", name, "\n", strings.Join(log.Lines(), "\n"))
	must(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && !strings.HasSuffix(path, extension) {
			texts += "\n" + path + "\n" + string(testenv.Must(os.ReadFile(path)))
		}
		return err
	}))
	if strings.Contains(texts, "~7~") && !strings.Contains(texts, "no /") { // what short texts a server repeats nobody can tell
		t.Errorf("a short secret is in\n%s", texts)
	}
	for _, hidden := range []string{"S3CR", base64.StdEncoding.EncodeToString([]byte("ann:" + secret)), `"state":"sent"`} {
		testenv.FailIf(t, strings.Contains(texts, hidden), "%s is in\n%s", hidden, texts)
	}
}

// Whatever is wrong with the name of a target, the error does not have it, for where the password is in it is not known.
func TestOpenSecret(t *testing.T) {
	for _, to := range []string{
		"otlp+http://user:S3CR%ET@h:1", "otlp+htp://user:S3CRET@h", "otlp+http://user:S3CRET@h:x", "otlp+http://user:S3CRET@", "user:S3CRET@h", "S3CRET@h:1",
		"otlp+http://user:12/S3CRET@h", "otlp+http://user:12?S3CRET@h", "otlp+http://user:12#S3CRET@h", "otlp+http:user:S3CRET@h", "S3CRET://h", "otlp+http://h/#S3CRET",
		"parquet://user:S3CRET@h/d",
	} {
		_, name, _, err := Open(to, TargetOptions{})
		testenv.FailIf(t, err == nil || strings.Contains(fmt.Sprint(err, name), "S3C"), "%s: %v, %s", to, err, name)
	}
	_, name, key, err := Open("otlp+http://S3CRET@h/p?token=S3CRET&S3CRET", TargetOptions{})
	want := "otlp+http://xxxxx@h/p?token=xxxxx&xxxxx"
	testenv.FailIf(t, err != nil || name != want || key == name, "%s, want %s, with a key of its own: %v", name, want, err)
}
