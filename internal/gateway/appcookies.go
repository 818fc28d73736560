package gateway

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// A page at one app host can set cookies for all of them, by its script, and a
// request doesn't tell whose a cookie is. So each that an app sets goes to the
// browser twice: as it is, for the app's scripts to read, and under a name with
// the prefix __Host-, which browsers take from the host itself alone. Only the
// latter come back to the app, under their own names.

// guestPrefix begins the latter; then come the path in base64, a dot and the name.
const guestPrefix = "__Host-tenon-c."

// ourCookies begin like this, here and at the console: they are never an app's
// to see or to set.
var ourCookies = []string{"__host-tenon", "__secure-tenon", "tenon_"}

// What an app gets and sets at most, whatever the browser has.
const (
	guestCookieBytes = 32 << 10
	guestCookies     = 128
	guestCookieLine  = 8 << 10
	expiredAtOnce    = 64
)

type cookiesContextKey struct{}

// browserCookies is what a request brought.
type browserCookies struct {
	guest string   // the header for the app
	loose []string // names that stand for nothing of the app's: a script set them, or another host
}

func withCookies(r *http.Request) context.Context {
	return context.WithValue(r.Context(), cookiesContextKey{}, readCookies(r.Header["Cookie"], r.URL.Path))
}

func cookiesOf(ctx context.Context) browserCookies {
	c, _ := ctx.Value(cookiesContextKey{}).(browserCookies)
	return c
}

// readCookies takes the app's own out of all that came, the most exact path first.
func readCookies(lines []string, path string) (out browserCookies) {
	type cookie struct{ path, name, value string }
	var own []cookie
	known := map[string]bool{}
	var plain [][2]string
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			name, value, found := strings.Cut(strings.TrimSpace(pair), "=")
			rest, guest := strings.CutPrefix(name, guestPrefix)
			switch {
			case !found || name == "":
			case guest:
				encoded, name, ok := strings.Cut(rest, ".")
				at, err := base64.RawURLEncoding.DecodeString(encoded)
				if ok && err == nil && name != "" && !isOurs(name) && pathMatches(path, "/"+string(at)) {
					own = append(own, cookie{"/" + string(at), name, value})
					known[name+"="+value] = true
				}
			case !isOurs(name):
				plain = append(plain, [2]string{name, value})
			}
		}
	}
	slices.SortStableFunc(own, func(a, b cookie) int { return len(b.path) - len(a.path) })
	var header strings.Builder
	for n, c := range own {
		if n == guestCookies || header.Len()+len(c.name)+len(c.value)+3 > guestCookieBytes {
			break
		}
		if n > 0 {
			header.WriteString("; ")
		}
		header.WriteString(c.name + "=" + c.value)
	}
	out.guest = header.String()
	for _, p := range plain {
		if len(out.loose) < expiredAtOnce && !known[p[0]+"="+p[1]] && !slices.Contains(out.loose, p[0]) {
			out.loose = append(out.loose, p[0])
		}
	}
	return out
}

// pathMatches is RFC 6265's.
func pathMatches(request, cookie string) bool {
	if request == "" {
		request = "/"
	}
	rest, ok := strings.CutPrefix(request, cookie)
	return ok && (rest == "" || strings.HasSuffix(cookie, "/") || rest[0] == '/')
}

func isOurs(cookie string) bool {
	name := strings.ToLower(strings.TrimSpace(cookie))
	for _, prefix := range ourCookies {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// setCookies are the lines that a browser gets for those of an app's answer to a
// request for a path.
func setCookies(lines []string, path string) (out []string) {
	if !strings.HasPrefix(path, "/") {
		path = "/"
	}
	taken := 0
	for _, line := range lines {
		if !cookieStays(line) || len(line) > guestCookieLine || taken == guestCookies {
			continue
		}
		taken++
		pair, attributes, _ := strings.Cut(line, ";")
		name, value, _ := strings.Cut(pair, "=")
		at, script := path[:max(1, strings.LastIndexByte(path, '/'))], true
		keep := ""
		for attribute := range strings.SplitSeq(attributes, ";") {
			key, val, _ := strings.Cut(strings.TrimSpace(attribute), "=")
			switch strings.ToLower(strings.TrimSpace(key)) {
			case "path":
				if val = strings.TrimSpace(val); strings.HasPrefix(val, "/") {
					at = val
				}
			case "httponly":
				script = false
			case "expires", "max-age", "samesite":
				keep += "; " + key + "=" + val
			}
		}
		if script {
			out = append(out, line)
		}
		out = append(out, guestPrefix+base64.RawURLEncoding.EncodeToString([]byte(at[1:]))+"."+strings.TrimSpace(name)+"="+strings.TrimSpace(value)+
			"; Path=/; Secure; HttpOnly"+keep)
	}
	return out
}

// expire are the lines that take cookies away which were set for all hosts of the
// domain. One that a page set for its own host stays.
func expire(names []string, domain, path string) (out []string) {
	paths := []string{"/"}
	for i := 1; i < len(path) && len(paths) < 8; i++ {
		if path[i] == '/' {
			paths = append(paths, path[:i])
		}
	}
	for _, at := range paths {
		for _, name := range names {
			if len(out) == expiredAtOnce || strings.ContainsAny(at, ";\"\\\x7f") || strings.IndexFunc(at, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
				break
			}
			out = append(out, name+"=; Domain="+domain+"; Path="+at+"; Max-Age=0")
		}
	}
	return out
}

// cookieStays refuses a cookie for more than the app's own host, one of our
// names, and one without a name, whose value a browser sends like a name.
func cookieStays(line string) bool {
	pair, attributes, _ := strings.Cut(line, ";")
	name, _, hasValue := strings.Cut(pair, "=")
	if name = strings.TrimSpace(name); !hasValue || name == "" || isOurs(name) {
		return false
	}
	for attribute := range strings.SplitSeq(attributes, ";") {
		key, _, _ := strings.Cut(attribute, "=")
		if strings.EqualFold(strings.TrimSpace(key), "Domain") {
			return false
		}
	}
	return true
}

// opensPage reports a request whose answer becomes a page.
func opensPage(r *http.Request) bool {
	return safe(r.Method) && !isWebSocket(r) && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}
