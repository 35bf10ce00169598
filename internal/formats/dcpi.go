package formats

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/formats/dcpi"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
)

var dcpiDatabase = &Format{
	Name:       "dcpi",
	Doc:        "DCPI database: counts of instruction addresses",
	Extensions: []string{".dcpi"},
	Directory:  true,
	sniff:      dcpi.Sniff,
	sniffDir:   dcpi.IsDatabase,
	open:       openDCPI,
	write: writeDCPI(func(t *target, p *dcpi.Profile) error {
		_, err := p.Flush(t.Dir)
		return err
	}),
}

var dcpiText = &Format{
	Name:       "dcpicat",
	Doc:        "what dcpicat prints of a DCPI profile",
	Extensions: []string{".dcpicat"},
	write:      writeDCPI(func(t *target, p *dcpi.Profile) error { return p.Cat(t.W) }),
}

// writeDCPI writes a format that is made of DCPI profiles, one after the other.
func writeDCPI(write func(*target, *dcpi.Profile) error) func(*target, *Input, *Options) error {
	return func(t *target, in *Input, o *Options) error {
		ps, err := dcpiProfiles(in, o)
		for _, p := range ps {
			if err == nil {
				err = write(t, p)
			}
		}
		return err
	}
}

// dcpiProfiles returns in as DCPI profiles.
func dcpiProfiles(in *Input, o *Options) ([]*dcpi.Profile, error) {
	if c, ok := in.content.(*dcpiContent); ok {
		return c.profiles, nil
	}
	if !in.HasSamples() {
		return nil, fmt.Errorf("cannot make a DCPI profile of it: that needs the addresses of instructions, and a %s file names functions", in.Format.Name)
	}
	src, err := in.all()
	if err != nil {
		return nil, err
	}
	m := src.Metadata()
	interval := min(reader.Micros(src.Header().Interval), time.Hour)
	if m.Session != nil && m.PCs == nil {
		pcs, lost, err := dcpi.LeafPCs(m.Session, src)
		if err != nil {
			return nil, err
		}
		if lost > 0 {
			o.warn(fmt.Errorf("%d samples are left out: their executable does not say where they were", lost))
		}
		with := *m
		with.PCs = pcs
		ps, err := dcpi.FromSession(&with, interval)
		for _, p := range ps {
			p.Lines = append(p.Lines, dcpi.NewLine("x-addresses", "of each line the first"))
		}
		return ps, err
	}
	return dcpi.FromSession(m, interval)
}

type dcpiContent struct {
	profiles []*dcpi.Profile
	o        *Options
}

func openDCPI(s *source, o *Options) (content, error) {
	c := &dcpiContent{o: o}
	opts := dcpi.Options{Lax: o.Lax}
	if s.dir {
		var err error
		c.profiles, err = dcpi.ReadDatabase(s.Path, opts)
		return c, err
	}
	err := s.read(func(r io.Reader) error {
		p, err := dcpi.Read(r, s.Name, opts)
		c.profiles = []*dcpi.Profile{p}
		return err
	})
	return c, err
}

func (c *dcpiContent) Close() error { return nil }

func (c *dcpiContent) Profile() (*profile.Profile, error) {
	p, problems := dcpi.Sums(c.profiles...)
	c.o.warn(errors.Join(problems...))
	return p, nil
}

// Dump writes the header's lines, then the addresses that have samples, of each
// profile in turn.
func (c *dcpiContent) Dump(w io.Writer) error {
	type line struct {
		Word  string `json:"word"`
		Value string `json:"value"`
	}
	type count struct {
		Address string `json:"address"`
		Count   uint32 `json:"count"`
	}
	return encoded(w, func(e *json.Encoder) error {
		for _, p := range c.profiles {
			for _, l := range p.Lines {
				if err := e.Encode(line{utf8Text(l.Word()), utf8Text(l.Value())}); err != nil {
					return err
				}
			}
			for n := range p.Counts() {
				if err := e.Encode(count{fmt.Sprintf("%#x", n.Addr), n.Count}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// utf8Text returns a line's text for JSON. Text that is not UTF-8 is taken for
// Latin-1, in which a character is a byte.
func utf8Text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

func (c *dcpiContent) Info() ([]Field, error) {
	p, err := c.Profile()
	if err != nil {
		return nil, err
	}
	list := profileInfo(dcpiDatabase, p)
	for _, word := range []string{"image", "epoch", "platform", "event", "period", "tstart", "tsize", "cpuspeed", "path"} {
		var values []string
		for _, p := range c.profiles {
			if v, ok := p.Value(word); ok && (len(values) == 0 || values[len(values)-1] != utf8Text(v)) {
				values = append(values, utf8Text(v))
			}
		}
		text := strings.Join(values, ", ")
		list.add(word, word, text, text)
	}
	return list, nil
}

func (c *dcpiContent) Verify() (string, error) {
	var addresses, samples uint64
	chunks := 0
	for _, p := range c.profiles {
		a, s := p.Total()
		addresses, samples, chunks = addresses+a, samples+s, chunks+len(p.Chunks)
	}
	what := "1 profile"
	if n := len(c.profiles); n != 1 {
		what = fmt.Sprint(n, " profiles")
	}
	return fmt.Sprintf("%s, %d chunks, %d addresses, %d samples", what, chunks, addresses, samples), nil
}
