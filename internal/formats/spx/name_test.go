package spx

import (
	"html"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNamesSurvive(t *testing.T) {
	for name, want := range map[string]string{
		"main.(*T[...]).f":   "main.(*T[...]).f",
		"a<b>":               "a&lt;b&gt;",
		"&lt;":               "&amp;lt;",
		"größe":              "gr&#246;&#223;e",
		`"it's"`:             "&#34;it&#39;s&#34;",
		"constructor":        "&#99;onstructor",
		"main.constructor":   "main.constructor",
		"[functions]":        "&#91;functions]",
		"[select]":           "[select]",
		"":                   "(no name)",
		"two\nlines\r\tmore": "two lines  more",
	} {
		if got := escape(name); got != want {
			t.Errorf("%q is written %q, want %q", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(
			rapid.StringOfN(rapid.RuneFrom([]rune("<>&;#\"'ltampg39äß☺ .")), 1, 12, -1),
			rapid.SampledFrom(objectKeys),
			rapid.StringMatching(`[ -~]{1,20}`),
		).Draw(t, "name")
		got := escape(name)
		if strings.Trim(got, " !#$%&'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") != "" || strings.ContainsAny(got, "<>\"'") {
			t.Fatalf("%q is written %q", name, got)
		}
		if unescape(got) != name || html.UnescapeString(got) != name {
			t.Fatalf("%q is written %q and read %q", name, got, unescape(got))
		}
	})
}
