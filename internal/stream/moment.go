package stream

import (
	"errors"
	"fmt"
	"time"
)

// A Moment is a time of a profile.
type Moment struct {
	text  string        // as it was given; "": none
	after time.Duration // since the start, or before the end if it is negative, or after midnight
	clock time.Time     // if not zero, this is it
	daily bool          // after is the time on a clock
}

// ParseMoment returns the moment that a text says: a time since the start such as 10s, before the
// end such as -30s, or on the local clock such as 15:04:05 or 2006-01-02 15:04:05. "" is no moment.
func ParseMoment(text string) (Moment, error) {
	m := Moment{text: text}
	if text == "" {
		return m, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		m.after = d
		if d == 0 && text[0] == '-' { // the end
			m.after = -1
		}
		return m, nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			m.daily = true
			m.after = t.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))
			return m, nil
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			m.clock = t
			return m, nil
		}
	}
	return m, fmt.Errorf("%q is no time: it must be like 10s (since the start), -30s (before the end), 15:04:05 or 2006-01-02T15:04:05", text)
}

// fromEnd reports whether the length of a profile is needed to know a moment.
func (m Moment) fromEnd() bool { return m.clock.IsZero() && !m.daily && m.after < 0 }

// since returns a moment as the time since the start of a profile in µs.
func (m Moment) since(start, length uint64) uint64 {
	switch {
	case !m.clock.IsZero():
		return uint64(max(0, m.clock.UnixMicro()-int64(start)))
	case m.daily:
		begin := time.UnixMicro(int64(start))
		y, month, d := begin.Date()
		at := time.Date(y, month, d, 0, 0, 0, 0, time.Local).Add(m.after)
		if begin.Sub(at) > 12*time.Hour { // of the next day
			at = at.AddDate(0, 0, 1)
		}
		return uint64(max(0, at.UnixMicro()-int64(start)))
	case m.after < 0:
		return length - min(length, uint64(-m.after.Microseconds()))
	}
	return uint64(m.after.Microseconds())
}

// At returns a moment in µs since the start of the header. It is an error if that is not in the
// profile.
func (s *Source) At(m Moment) (uint64, error) {
	length, err := s.length()
	if err != nil || m.text == "" {
		return 0, err
	}
	start := s.Header().Start
	at := m.since(start, length)
	if at > length || at == 0 && (m.after != 0 || !m.clock.IsZero()) {
		return 0, fmt.Errorf("%s is not in the profile, which began at %s and has %v", m.text,
			time.UnixMicro(int64(start)).Format("2006-01-02T15:04:05.000"), (time.Duration(length) * time.Microsecond).Round(time.Millisecond))
	}
	return at, nil
}

func (m Moment) orStart() string {
	if m.text == "" {
		return "the start"
	}
	return m.text
}

// length returns how long the profile is, in µs.
func (s *Source) length() (uint64, error) {
	said := true
	for _, p := range s.parts {
		said = said && p.Metadata.Session != nil && p.Metadata.Session.Duration > 0
	}
	if said {
		return uint64(s.metadata.Session.Duration.Microseconds()), nil
	}
	for _, err := range s.Samples() {
		if err != nil {
			return 0, err
		}
	}
	return s.end, nil
}

// A noTimeError says that a selection has no time of a source.
type noTimeError string

func (e noTimeError) Error() string { return string(e) }

// IsNoTime reports whether a source was not opened because the selection has no time of it.
func IsNoTime(err error) bool {
	var none noTimeError
	return errors.As(err, &none)
}
