package main

import (
	"strings"
	"testing"
)

// On a terminal, where there are colours, commands write no other escape sequence. What top writes has nothing of what others
// chose.
func TestPrintedTerminal(t *testing.T) {
	_, tach, empty, _, sums := evilFiles(t)
	for _, args := range [][]string{{"report", tach}, {"locks", tach}, {"verify", tach, empty}, {"convert", tach, "-o", "-", "--to", "collapsed"}, {"dump", sums}} {
		p := newPTY(t, 100, 40, args...)
		_, text := p.end()
		text = strings.ReplaceAll(text, "\r", "") // of the terminal and of a progress bar
		if bad := unsafe(text); bad != "" || !strings.Contains(text, "owned") {
			t.Errorf("%q writes %q: %q", args, bad, text)
		}
		if colours := strings.Contains(text, "\x1b["); colours != (args[0] != "convert" && args[0] != "dump") {
			t.Errorf("%q: colours: %v", args, colours)
		}
	}
	for _, what := range []string{tach, "http://" + hostileServer(t) + "/" + evil} {
		p := newPTY(t, 100, 40, "top", what)
		if what == tach {
			p.await(t, "main.")
			p.press("q")
		}
		_, text := p.end()
		for _, bad := range []string{"\x1b]0;owned", "\x1b[35m", "\u009b", "\u202e", "\ngotach: forged"} {
			if strings.Contains(text, bad) {
				t.Errorf("top %q writes %q", what, bad)
			}
		}
		if !strings.Contains(text, "owned") {
			t.Errorf("top %q has not written the name: %q", what, text)
		}
	}
}
