package profile

import (
	"fmt"
	"time"
)

// DurationText returns a time as text with three digits and a unit.
func DurationText(d time.Duration) string {
	s := d.Seconds()
	switch {
	case d == 0:
		return "0"
	case d < time.Microsecond:
		return fmt.Sprintf("%dns", d.Nanoseconds())
	case d < time.Millisecond:
		return Digits(s*1e6) + "µs"
	case d < time.Second:
		return Digits(s*1e3) + "ms"
	case s < 1000:
		return Digits(s) + "s"
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(s)%60)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	if d < 10000*time.Hour {
		return fmt.Sprintf("%.0fh", d.Hours())
	}
	return fmt.Sprintf("%.0fd", d.Hours()/24)
}

// Digits returns a number below 1000 with three digits.
func Digits(f float64) string {
	switch {
	case f < 9.995:
		return fmt.Sprintf("%.2f", f)
	case f < 99.95:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}
