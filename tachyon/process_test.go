package tachyon

import "testing"

// TestLabel checks what a session says about its process.
func TestLabel(t *testing.T) {
	revision := map[string]string{"vcs.revision": "0123456789abcdef", "vcs.modified": "false"}
	dirty := map[string]string{"vcs.revision": "0123456789abcdef", "vcs.modified": "true"}
	for _, c := range []struct {
		s         Session
		key, want string
	}{
		{Session{Host: "web-1"}, "host", "web-1"},
		{Session{Host: "web-1", PID: 47}, "pid", "47"},
		{Session{Host: "web-1", PID: 47}, "process", "web-1/47"},
		{Session{Program: "app"}, "service", "app"},
		{Session{Program: "app", Service: "shop"}, "service", "shop"},
		{Session{Version: "v1.2.3", VCS: revision, BuildID: "ab", ServiceVersion: "7"}, "version", "7"},
		{Session{Version: "v1.2.3", VCS: revision, BuildID: "ab"}, "version", "v1.2.3"},
		{Session{Version: "(devel)", VCS: revision, BuildID: "ab"}, "version", "0123456789ab"},
		{Session{Version: "(devel)", VCS: dirty, BuildID: "ab"}, "version", "0123456789ab+dirty"},
		{Session{BuildID: "0123456789abcdef"}, "version", "build 0123456789ab"},
		{Session{BuildID: "action/y/x/content"}, "version", "build content"},
		{Session{}, "host", ""},
		{Session{Host: "web-1"}, "process", ""},
		{Session{Host: "web-1"}, "request", ""},
	} {
		if got, ok := c.s.Label(c.key); got != c.want || ok != (c.want != "") {
			t.Errorf("%s of %+v is %q, %v; want %q", c.key, c.s, got, ok, c.want)
		}
	}
	for _, key := range ProcessLabels {
		if _, ok := (&Session{Host: "h", PID: 1, Program: "p", Version: "v1"}).Label(key); !ok {
			t.Errorf("no label %s", key)
		}
	}
}
