package push

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A poster sends requests to an HTTP server and tells what their answers mean.
type poster struct {
	client  *http.Client
	header  http.Header
	metrics *Metrics
	zip     bytes.Buffer
	zw      *gzip.Writer
}

// TargetOptions are those of targets that are HTTP servers.
type TargetOptions struct {
	Header     http.Header   // of each request
	Timeout    time.Duration // of a request; 0: 30 s
	CA         []byte        // PEM; nil: the system's authorities
	Goroutines bool          // tell goroutines apart
	Resource   [][2]string   // attributes to add to the process's, or to replace some
	Metrics    *Metrics      // counts requests; nil: nobody does
}

func newPoster(o *TargetOptions) (*poster, error) {
	timeout := o.Timeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	tr := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: timeout,
		MaxIdleConns:          2,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
	}
	if o.CA != nil {
		pool, err := pool(o.CA)
		if err != nil {
			return nil, err
		}
		tr.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	metrics := o.Metrics
	if metrics == nil {
		metrics = NewMetrics()
	}
	zw, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level exists
	return &poster{
		client: &http.Client{
			Transport: tr, Timeout: timeout,
			// A redirect would lose the body or the header with the password.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		header: o.Header, metrics: metrics, zw: zw,
	}, nil
}

func (p *poster) close() { p.client.CloseIdleConnections() }

// maxAnswer is the number of bytes that are read of an answer.
const maxAnswer = 64 << 10

// post sends a body and returns the answer's. Errors are those of a Target. The caller may change the body
// afterwards.
func (p *poster) post(ctx context.Context, to *url.URL, contentType string, body []byte, compress bool) (answer []byte, err error) {
	if compress {
		p.zip.Reset()
		p.zw.Reset(&p.zip)
		if _, err := p.zw.Write(body); err != nil {
			return nil, err
		}
		if err := p.zw.Close(); err != nil {
			return nil, err
		}
		body = p.zip.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range p.header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", contentType)
	if compress {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "gotach-push")
	}
	resp, err := p.client.Do(req)
	if err != nil {
		p.metrics.Request(0, int64(len(body)))
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return nil, fmt.Errorf("%s: %w", to.Host, err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	p.metrics.Request(resp.StatusCode, int64(len(body)))
	if code := resp.StatusCode; code/100 != 2 {
		return nil, meaning(resp, answer)
	}
	if err != nil { // whether the server has it nobody knows
		return nil, fmt.Errorf("%s: the answer was cut off: %w", to.Host, err)
	}
	return answer, nil
}

// meaning returns the error that an answer stands for.
func meaning(resp *http.Response, answer []byte) error {
	err := fmt.Errorf("%s answers %s", resp.Request.URL.Redacted(), resp.Status)
	if text := oneLine(answer); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	switch code := resp.StatusCode; {
	case code == http.StatusRequestEntityTooLarge:
		return &TooLargeError{err}
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return &RetryError{Err: fmt.Errorf("%w (is the right --header given?)", err)}
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code/100 == 3:
		// Nothing is wrong with the file. All files would be parked.
		return &RetryError{Err: fmt.Errorf("%w (is --to right, and does the server take profiles?)", err)}
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code/100 == 5:
		return &RetryError{After: retryAfter(resp.Header.Get("Retry-After"), time.Now()), Err: err}
	case code/100 == 4:
		return &RefusedError{err}
	}
	return &RetryError{Err: err}
}

// retryAfter returns how long a server asks to wait: for a number of seconds or until a date. It is 0 if the text is
// neither.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(n, 0), 86400)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// oneLine returns the beginning of an answer as one line of text, "" if it is none.
func oneLine(b []byte) string {
	const most = 200
	if len(b) > most {
		b = b[:most]
	}
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return ""
		}
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(b), "")), " ")
}
