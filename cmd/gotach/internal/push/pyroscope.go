package push

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/formats/pprof"
	"github.com/gotach/profiler/internal/stream"
)

// pyroscopeTarget sends files to Pyroscope's endpoint /ingest, each in one request as a pprof
// profile.
type pyroscopeTarget struct {
	*poster
	to *url.URL
	o  TargetOptions
}

// NewPyroscope returns a target that sends pprof profiles to Grafana Pyroscope, which adds up what
// comes twice: it knows no ids.
func NewPyroscope(to *url.URL, o TargetOptions) (Target, error) {
	p, err := newPoster(to, &o)
	if err != nil {
		return nil, err
	}
	u := *to
	u.Path = strings.TrimSuffix(u.Path, "/")
	if !strings.HasSuffix(u.Path, "/ingest") {
		u.Path += "/ingest"
	}
	return &pyroscopeTarget{p, &u, o}, nil
}

// Limits implements Target.
func (t *pyroscopeTarget) Limits() Limits { return Limits{} }

// Close implements Target.
func (t *pyroscopeTarget) Close() error { t.close(); return nil }

// sampleTypes tells Pyroscope what the numbers of a sample are. Times are in nanoseconds.
const sampleTypes = `{"wall":{"units":"nanoseconds","display-name":"wall","aggregation":"sum"},` +
	`"cpu":{"units":"nanoseconds","display-name":"cpu","aggregation":"sum"},` +
	`"samples":{"units":"count","display-name":"samples","aggregation":"sum"}}`

// Send implements Target.
func (t *pyroscopeTarget) Send(ctx context.Context, b *Batch) error {
	for _, f := range b.Files {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		part, err := form.CreateFormFile("profile", "profile.pprof")
		if err != nil {
			return err
		}
		err = f.Read(stream.Options{Labels: true, Context: ctx, Queue: fewBatches}, func(src *stream.Source) error {
			return pprof.WriteStream(part, src, t.o.Goroutines)
		})
		if err != nil {
			return err
		}
		if part, err = form.CreateFormFile("sample_type_config", "sample_type_config.json"); err != nil {
			return err
		}
		if _, err := part.Write([]byte(sampleTypes)); err != nil {
			return err
		}
		if err := form.Close(); err != nil {
			return err
		}
		u := *t.to
		q := u.Query()
		q.Set("name", t.name(f))
		q.Set("from", strconv.FormatInt(f.Start.UnixNano(), 10))
		q.Set("until", strconv.FormatInt(f.End.UnixNano(), 10))
		q.Set("spyName", "gotach") // and no format: with one, Pyroscope does not see that the body has parts
		u.RawQuery = q.Encode()
		answer, kind, err := t.post(ctx, &u, form.FormDataContentType(), body.Bytes(), false)
		if err != nil {
			return err
		}
		if len(answer) > 0 || kind == "text/html" { // Pyroscope's own has the code 200 and no body
			return t.unexpected(&u, fmt.Sprintf("200 with %d bytes of type %q, and Pyroscope's has none", len(answer), kind), answer)
		}
	}
	return nil
}

// name returns what Pyroscope calls the name of a profile: that of the service, and labels.
func (t *pyroscopeTarget) name(f *File) string {
	labels := map[string]string{"service_version": f.Version, "hostname": f.Host}
	if f.PID != 0 {
		labels["pid"] = strconv.Itoa(f.PID)
	}
	service := f.Service
	for _, r := range t.o.Resource {
		if r[0] == "service.name" {
			service = r[1]
		} else {
			labels[labelName(r[0])] = r[1]
		}
	}
	if service == "" {
		service = "unknown"
	}
	var list []string
	for k, v := range labels {
		if v != "" {
			list = append(list, fmt.Sprintf("%s=%s", k, strings.Map(plain, v)))
		}
	}
	slices.Sort(list)
	return fmt.Sprintf("%s{%s}", strings.Map(serviceRune, service), strings.Join(list, ","))
}

// labelName returns a name that Pyroscope takes for a label's.
func labelName(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '_' && !letter(r) {
			return '_'
		}
		return r
	}, s)
}

// serviceRune replaces what may not be in the name of a service.
func serviceRune(r rune) rune {
	if !letter(r) && !strings.ContainsRune("_.-/", r) {
		return '_'
	}
	return r
}

func letter(r rune) bool { return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }

// plain replaces what has a meaning in a name for Pyroscope.
func plain(r rune) rune {
	if strings.ContainsRune("{},=\"\n", r) {
		return '_'
	}
	return r
}
