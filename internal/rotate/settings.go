package rotate

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The least values of Every, Bytes and KeepBytes that people may set. The writer's buffer holds
// half a megabyte of samples before compression, so smaller files would not be exact.
const (
	MinEvery     = time.Second
	MinBytes     = 1_000_000
	MinKeepBytes = 2 * MinBytes // one file takes at most half of KeepBytes
)

// What is kept if nobody says otherwise.
const (
	UsualKeep      = 100
	UsualKeepBytes = 1_000_000_000
)

// ParseSplit parses Every and Bytes: a duration, a size, both with a comma between them, or "none".
func ParseSplit(s string) (every time.Duration, bytes int64, err error) {
	if s == "none" {
		return 0, 0, nil
	}
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		if d, e := time.ParseDuration(item); e == nil && d > 0 && every == 0 {
			every = d
		} else if n, e := parseSize(item); e == nil && bytes == 0 {
			bytes = n
		} else {
			return 0, 0, errors.New("not a duration such as 60s, a size such as 100MB, or both as 60s,100MB")
		}
	}
	switch {
	case every != 0 && every < MinEvery:
		err = fmt.Errorf("%v is less than %v", every, MinEvery)
	case bytes != 0 && bytes < MinBytes:
		err = fmt.Errorf("%s are less than %s", FormatSize(bytes), FormatSize(MinBytes))
	}
	return every, bytes, err
}

// ParseKept parses Keep and KeepBytes: a number of files, a size, or both with a comma between
// them. What is not there has its usual value.
func ParseKept(s string) (files int, bytes int64, err error) {
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		if n, e := strconv.Atoi(item); e == nil && n > 0 && files == 0 {
			files = n
		} else if n, e := parseSize(item); e == nil && bytes == 0 {
			bytes = n
		} else {
			return 0, 0, errors.New("not a number of files such as 20, a size such as 500MB, or both as 20,500MB")
		}
	}
	if bytes != 0 && bytes < MinKeepBytes {
		err = fmt.Errorf("%s are less than %s", FormatSize(bytes), FormatSize(MinKeepBytes))
	}
	return cmp.Or(files, UsualKeep), cmp.Or(bytes, UsualKeepBytes), err
}

// parseSize parses a positive whole number with a unit.
func parseSize(s string) (int64, error) {
	for _, u := range units {
		if len(s) <= len(u.name) || !strings.EqualFold(s[len(s)-len(u.name):], u.name) {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(s[:len(s)-len(u.name)]), 10, 64)
		if err != nil || n <= 0 || n > (1<<62)/u.size {
			break
		}
		return n * u.size, nil
	}
	return 0, errors.New("not a size such as 100MB")
}

var units = []struct {
	name string
	size int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
}

// FormatSize returns a number of bytes in the form that ParseSplit and ParseKept take.
func FormatSize(n int64) string {
	for i := len(units) - 1; i >= 0; i-- {
		if u := units[i]; n%u.size == 0 {
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
