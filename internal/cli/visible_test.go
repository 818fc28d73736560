package cli

import "testing"

func TestControlCharactersAreShownNotObeyed(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ünïcode\ttab\n": "plain ünïcode\ttab\n",
		"\x1b]0;owned\x07":     `\x1b]0;owned\a`,
		"crlf\r\nover\rwrite":  "crlf\nover\\rwrite",
		"\u009b31m":            `\u009b31m`,
	} {
		if got := visible(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
