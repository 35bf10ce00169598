package push

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/formats/otlp"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
)

// otlpPath is where OTLP receivers take profiles.
const otlpPath = "/v1development/profiles"

// A message has at most about this many bytes, before compression, and this many records. Receivers
// take 4 MB or more, but memory grows with it.
const (
	maxMessage = 1 << 19
	maxRecords = 1 << 12
)

// fewBatches is the number of batches of samples that are decoded ahead, for as little memory as
// possible.
const fewBatches = 8

// otlpTarget sends files to an OTLP receiver, a file in one or several messages.
type otlpTarget struct {
	*poster
	to      *url.URL
	o       TargetOptions
	message int // bytes; maxMessage
}

// NewOTLP returns a target that sends OpenTelemetry profiles to a receiver, with OTLP/HTTP. If the
// URL has no path, the usual one is taken. Each message's profiles have ids that are the same when
// it is sent again.
func NewOTLP(to *url.URL, o TargetOptions) (Target, error) {
	p, err := newPoster(to, &o)
	if err != nil {
		return nil, err
	}
	u := *to
	if strings.Trim(u.Path, "/") == "" {
		u.Path = otlpPath
	}
	return &otlpTarget{p, &u, o, maxMessage}, nil
}

// Limits implements Target.
func (t *otlpTarget) Limits() Limits { return Limits{} }

// Close implements Target.
func (t *otlpTarget) Close() error { t.close(); return nil }

// Send implements Target.
func (t *otlpTarget) Send(ctx context.Context, b *Batch) error {
	for _, f := range b.Files {
		if err := f.Read(stream.Options{Labels: true, Context: ctx, Queue: fewBatches}, func(src *stream.Source) error { return t.file(ctx, b, f, src) }); err != nil {
			return err
		}
	}
	return nil
}

// file sends a file.
func (t *otlpTarget) file(ctx context.Context, b *Batch, f *File, src *stream.Source) error {
	s := otlpFile{
		otlpTarget: t, ctx: ctx, b: b, f: f, enc: otlp.NewEncoder(),
		about: otlp.About{
			Program: f.Service, Session: f.Session, Start: f.Start, Duration: f.End.Sub(f.Start), Interval: reader.Micros(src.Header().Interval),
			Service: f.Service, ServiceVersion: f.Version, Resource: t.o.Resource,
		},
	}
	s.enc.Goroutines = t.o.Goroutines
	_, err := profile.Each(src, profile.Detail{Labels: true, Goroutines: t.o.Goroutines}, maxRecords, func(p *profile.Profile, r *profile.Record) error {
		s.p = p
		s.enc.Add(p, r)
		keep := *r
		keep.Labels = nil // made of Set again if need be
		s.records = append(s.records, keep)
		if s.enc.Size() < s.message {
			return nil
		}
		return s.flush()
	})
	if err != nil {
		return err
	}
	return s.flush()
}

// An otlpFile is a file that is being sent. Which records are in which message depends only on the
// file, so that the ids are the same each time.
type otlpFile struct {
	*otlpTarget
	ctx     context.Context
	b       *Batch
	f       *File
	p       *profile.Profile
	about   otlp.About
	enc     *otlp.Encoder
	records []profile.Record // in enc, without Labels
	part    int
}

// flush sends the records so far.
func (s *otlpFile) flush() error {
	s.part++
	records := s.records
	if len(records) > 0 {
		if err := s.send(records, fmt.Sprintf("%s %d", s.f.ID, s.part), true); err != nil {
			return err
		}
	}
	clear(s.records)
	s.records = s.records[:0]
	s.enc.Reset()
	return nil
}

// send sends records as one message or, if the receiver thinks that it is too large, as several.
// The key names the message. encoded says that the records are in enc.
func (s *otlpFile) send(records []profile.Record, key string, encoded bool) error {
	if s.b.Done(key) {
		return nil
	}
	if !encoded {
		s.enc.Reset()
		for _, r := range records {
			if r.Set != nil {
				r.Labels = r.Set.Map()
			}
			s.enc.Add(s.p, &r)
		}
	}
	s.about.WallID, s.about.CPUID = s.f.ID.Part("otlp wall "+key), s.f.ID.Part("otlp cpu "+key)
	if s.enc.Records() == 0 {
		s.b.SetDone(key)
		return nil
	}
	answer, kind, err := s.post(s.ctx, s.to, "application/x-protobuf", s.enc.Message(&s.about), true)
	if large := (*TooLargeError)(nil); errors.As(err, &large) && len(records) > 1 {
		half := len(records) / 2
		if err := s.send(records[:half], key+".0", false); err != nil {
			return err
		}
		if err := s.send(records[half:], key+".1", false); err != nil {
			return err
		}
	} else if err != nil {
		return err
	} else if err := s.accepted(answer, kind); err != nil {
		return err
	}
	s.b.SetDone(key)
	return nil
}

// accepted returns nil if an answer with the code 200 says that the receiver has all profiles of a
// message.
func (s *otlpFile) accepted(answer []byte, kind string) error {
	n, why, ok := rejected(answer, kind)
	if !ok {
		return s.unexpected(s.to, fmt.Sprintf("200 with %d bytes of type %q, which is not OTLP", len(answer), kind), answer)
	}
	if n == 0 {
		return nil
	}
	s.metrics.Rejected(n)
	return &RefusedError{fmt.Errorf("%s rejects %d profiles: %s", s.to.Host, n, oneLine(s.secrets.Replace(why)))}
}

// rejected returns what a receiver has not taken although its answer is 200, and why. The answer is
// an ExportProfilesServiceResponse, whose field 1 is an ExportProfilesPartialSuccess with a number
// and a text. It is not ok if the answer is something else.
func rejected(answer []byte, kind string) (n int64, why string, ok bool) {
	if kind == "application/json" {
		return rejectedJSON(answer)
	}
	whole := true
	ok = fields(answer, func(field int, _ uint64, content []byte) {
		if field == 1 {
			whole = content != nil && fields(content, func(field int, number uint64, text []byte) {
				switch field {
				case 1:
					n = int64(number)
				case 2:
					why = string(text)
				}
			})
		}
	})
	return n, why, ok && whole && n >= 0 && kind == "application/x-protobuf"
}

// rejectedJSON is rejected for the message in JSON. There a number may be a text, and names may be
// as in the protocol buffer. An object with other fields is something else.
func rejectedJSON(answer []byte) (n int64, why string, ok bool) {
	type partial struct {
		Rejected  json.RawMessage `json:"rejectedProfiles"`
		Rejected2 json.RawMessage `json:"rejected_profiles"`
		Why       string          `json:"errorMessage"`
		Why2      string          `json:"error_message"`
	}
	var m struct {
		Partial  partial `json:"partialSuccess"`
		Partial2 partial `json:"partial_success"`
	}
	d := json.NewDecoder(bytes.NewReader(answer))
	d.DisallowUnknownFields()
	if d.Decode(&m) != nil || d.Decode(new(any)) != io.EOF || answer[0] != '{' {
		return 0, "", false
	}
	for _, p := range []partial{m.Partial, m.Partial2} {
		for _, number := range []json.RawMessage{p.Rejected, p.Rejected2} {
			if number != nil && string(number) != "null" {
				v, err := strconv.ParseInt(strings.Trim(string(number), `"`), 10, 64)
				if err != nil || v < 0 {
					return 0, "", false
				}
				n = max(n, v)
			}
		}
		why = cmp.Or(why, p.Why, p.Why2)
	}
	return n, why, true
}

// fields calls f for each field of a protocol buffer message. It returns false if that is none.
func fields(b []byte, f func(field int, number uint64, content []byte)) bool {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
			return false
		}
		b = b[n:]
		switch tag & 7 {
		case 0, 2:
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return false
			}
			b = b[n:]
			var content []byte
			if tag&7 == 2 {
				if v > uint64(len(b)) {
					return false
				}
				content, b = b[:v:v], b[v:]
			}
			f(int(tag>>3), v, content)
		case 1, 5:
			n := 8
			if tag&7 == 5 {
				n = 4
			}
			if len(b) < n {
				return false
			}
			b = b[n:]
		default:
			return false
		}
	}
	return true
}
