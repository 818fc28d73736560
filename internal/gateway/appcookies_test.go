package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOnlyTheAppsOwnCookiesReachIt(t *testing.T) {
	t.Parallel()
	own := func(path, name, value string) string {
		for _, line := range setCookies([]string{name + "=" + value + "; HttpOnly; Path=" + path}, "/") {
			pair, _, _ := strings.Cut(line, ";")
			return pair
		}
		return ""
	}
	got := readCookies([]string{
		"_xsrf=tossed; __Host-tenon-app=secret;a=b; " + own("/", "_xsrf", "2|a"),
		"_xsrf=2|a; tenon_refresh=x; " + own("/lab", "c", `"d e"`) + "; __host-TENON-app=y; ; =z; __Secure-tenon=q; " + own("/other", "d", "e") + "; " + guestPrefix + ".tenon_refresh=x; " + guestPrefix + "~.f=g",
	}, "/lab/tree")
	if diff := cmp.Diff(`c="d e"; _xsrf=2|a`, got.guest); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"_xsrf", "a"}, got.loose); diff != "" { // the tossed one would be read first
		t.Error(diff)
	}
	for line, stays := range map[string]bool{
		"_xsrf=1; Path=/; HttpOnly": true, "a=b": true, "a=domain=x; Path=/": true,
		"a=b; Domain=apps.example": false, "a=b; Path=/;domain = .example": false, "a=b;DOMAIN": false,
		"__Host-tenon-app=x; Secure; Path=/": false, " __host-tenon-APP =x": false, "=__Host-tenon-app=x": false, "__Host-tenon-app": false, "tenon_refresh=1": false,
		guestPrefix + ".a=b": false,
	} {
		if cookieStays(line) != stays || len(setCookies([]string{line}, "/")) > 0 != stays {
			t.Errorf("Set-Cookie: %s: stays is %v", line, !stays)
		}
	}
}

// What an app sets comes back to it as RFC 6265 would have it, scripts can read
// what they may, and a browser takes the copy from that host alone.
func TestCookiesComeBackAsTheyWereSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, at, path, want string }{
		{"_xsrf=2|1:0; Path=/; expires=Wed, 30 Dec 2026 00:00:00 GMT", "/lab", "/api/kernels", "_xsrf=2|1:0"},
		{"sid=1; HttpOnly; SameSite=Strict", "/app/login", "/app/x", "sid=1"},
		{"sid=1", "/app/login", "/apple", ""},
		{"sid=1; path=/proxy/", "/", "/proxy/6006", "sid=1"},
		{"sid=1; Path=relative", "/", "/any", "sid=1"},
		{"sid=; Max-Age=0", "", "", "sid="},
	} {
		lines := setCookies([]string{c.line}, c.at)
		copied := lines[len(lines)-1]
		if !strings.HasPrefix(copied, "__Host-") || !strings.Contains(copied, "; Path=/; Secure; HttpOnly") || strings.Contains(strings.ToLower(copied), "domain") {
			t.Errorf("%s: a browser takes %s from others as well", c.line, copied)
		}
		if readable := len(lines) == 2 && lines[0] == c.line; readable == strings.Contains(c.line, "HttpOnly") {
			t.Errorf("%s: scripts can read it: %v", c.line, readable)
		}
		for _, keeps := range []string{"expires=Wed, 30 Dec 2026 00:00:00 GMT", "SameSite=Strict", "Max-Age=0"} {
			if strings.Contains(c.line, keeps) != strings.Contains(copied, keeps) {
				t.Errorf("%s: the copy is %s", c.line, copied)
			}
		}
		pair, _, _ := strings.Cut(copied, ";")
		if got := readCookies([]string{pair}, c.path).guest; got != c.want {
			t.Errorf("%s, set at %s, is %q at %s, want %q", c.line, c.at, got, c.path, c.want)
		}
	}
}

// However many cookies a page next door sets, what reaches the app is what it set,
// and little enough.
func TestCookiesOfOthersNeverReachAnApp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pair := rapid.StringMatching(`(tenon_|__Secure-|__Host-)?[a-z=._-]{0,12}=?[a-zA-Z0-9=;, ]{0,20}`)
		tossed := rapid.SliceOfN(pair, 0, 40).Draw(t, "tossed")
		tossed = slices.DeleteFunc(tossed, func(p string) bool { return strings.Contains(p, guestPrefix) })
		mine := setCookies([]string{"sid=1; Path=/"}, "/")[1]
		mine, _, _ = strings.Cut(mine, ";")
		at := rapid.IntRange(0, len(tossed)).Draw(t, "at")
		if got := readCookies([]string{strings.Join(slices.Insert(tossed, at, mine), "; ")}, "/").guest; got != "sid=1" {
			t.Fatalf("the app sees %q", got)
		}
	})
	var bomb []string
	for i := range 500 {
		bomb = append(bomb, fmt.Sprintf("n%d=%s", i, strings.Repeat("x", 4000)), fmt.Sprintf("%s.m%d=%s", guestPrefix, i, strings.Repeat("y", 500)))
	}
	got := readCookies([]string{strings.Join(bomb, "; ")}, "/a/b/c")
	if len(got.guest) > guestCookieBytes || len(got.guest) < guestCookieBytes/2 || len(got.loose) > expiredAtOnce {
		t.Errorf("%d bytes of cookies, %d names", len(got.guest), len(got.loose))
	}
	lines := expire(got.loose, "apps.example", "/a/b/c")
	if len(lines) != expiredAtOnce || lines[0] != "n0=; Domain=apps.example; Path=/; Max-Age=0" {
		t.Errorf("%d lines, the first %s", len(lines), lines[0])
	}
	if lines := expire([]string{"n"}, "apps.example", "/a/b/c"); len(lines) != 3 {
		t.Errorf("paths: %q", lines)
	}
	for mode, want := range map[string]bool{"navigate": true, "cors": false, "": false} {
		if got := opensPage(&http.Request{Method: http.MethodGet, Header: http.Header{"Sec-Fetch-Mode": {mode}}}); got != want {
			t.Errorf("%q opens a page: %v", mode, got)
		}
	}
}
