package push

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
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
	secrets *strings.Replacer // for texts of the server, which may repeat what it was sent
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

func newPoster(to *url.URL, o *TargetOptions) (*poster, error) {
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
		pool, err := authorities(o.CA)
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
		header: o.Header, secrets: secrets(to, o.Header), metrics: metrics, zw: zw,
	}, nil
}

// authorities returns those in a text of PEM.
func authorities(pem []byte) (*x509.CertPool, error) {
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in it")
	}
	return p, nil
}

func (p *poster) close() { p.client.CloseIdleConnections() }

// maxAnswer is the number of bytes that are read of an answer.
const maxAnswer = 64 << 10

// post sends a body and returns the answer of a server that says that it has it, and the answer's
// media type. Whether the answer is one of the target's protocol is for the caller to say: pages
// for people come with the code 200 too. Errors are those of a Target. The caller may change the
// body afterwards.
func (p *poster) post(ctx context.Context, to *url.URL, contentType string, body []byte, compress bool) (answer []byte, kind string, err error) {
	if compress {
		p.zip.Reset()
		p.zw.Reset(&p.zip)
		if _, err := p.zw.Write(body); err != nil {
			return nil, "", err
		}
		if err := p.zw.Close(); err != nil {
			return nil, "", err
		}
		body = p.zip.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, "", p.requestError(to, err)
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
		return nil, "", p.requestError(to, err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	p.metrics.Request(resp.StatusCode, int64(len(body)))
	switch kind, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case resp.StatusCode/100 != 2:
		return nil, "", p.statusError(resp, answer)
	case err != nil: // whether the server has it nobody knows
		return nil, "", p.requestError(to, fmt.Errorf("the answer was cut off: %w", err))
	case resp.StatusCode != http.StatusOK:
		return nil, "", p.unexpected(to, resp.Status, nil)
	case len(answer) > maxAnswer:
		return nil, "", p.unexpected(to, fmt.Sprintf("%s with more than %d bytes", resp.Status, maxAnswer), nil)
	}
	return answer, kind, nil
}

// unexpected returns the error for an answer that is none of the target's protocol, such as the
// page of a login.
func (p *poster) unexpected(to *url.URL, what string, answer []byte) error {
	return p.retry(to, what, answer, "that does not say that it has the profile; is --to right?")
}

// retry returns the error for an answer that says nothing against the file: it is sent again. hint
// says what may be wrong.
func (p *poster) retry(to *url.URL, what string, answer []byte, hint string) *RetryError {
	return &RetryError{Err: fmt.Errorf("%w (%s)", p.answered(to, what, answer), hint)}
}

// answered returns an error that says what a server answers.
func (p *poster) answered(to *url.URL, what string, answer []byte) error {
	text := fmt.Sprintf("%s://%s%s answers %s", to.Scheme, to.Host, to.EscapedPath(), what)
	if line := oneLine(p.secrets.Replace(string(answer))); line != "" {
		text += ": " + line
	}
	return errors.New(p.secrets.Replace(text))
}

// requestError returns the error of a request that has no whole answer, with the host, but without
// the rest of the URL, which may be secret.
func (p *poster) requestError(to *url.URL, err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	return &textError{p.secrets.Replace(fmt.Sprintf("%s: %v", to.Host, err)), err}
}

// statusError returns the error that an answer with another code than 2xx stands for.
func (p *poster) statusError(resp *http.Response, answer []byte) error {
	to := resp.Request.URL
	switch code := resp.StatusCode; {
	case code == http.StatusRequestEntityTooLarge:
		return &TooLargeError{p.answered(to, resp.Status, answer)}
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return p.retry(to, resp.Status, answer, "is the right --header given?")
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code/100 == 3:
		// Nothing is wrong with the file. All files would be parked.
		return p.retry(to, resp.Status, answer, "is --to right, and does the server take profiles?")
	case code/100 == 4 && code != http.StatusRequestTimeout && code != http.StatusTooEarly && code != http.StatusTooManyRequests:
		return &RefusedError{p.answered(to, resp.Status, answer)}
	}
	return &RetryError{After: retryAfter(resp.Header.Get("Retry-After"), time.Now()), Err: p.answered(to, resp.Status, answer)}
}

// longestRetry is the most that a server may ask to wait, as it could ask for years.
const longestRetry = time.Hour

// retryAfter returns how long a server asks to wait: for a number of seconds or until a date. It is
// 0 if the text is neither.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(n, 0), int(longestRetry/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), longestRetry)
	}
	return 0
}

// oneLine returns the beginning of an answer as one line of text, "" if it is none.
func oneLine(text string) string {
	const most = 200
	if len(text) > most {
		text = text[:most]
	}
	for _, c := range []byte(text) {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return ""
		}
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
}
