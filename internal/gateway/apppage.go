package gateway

import (
	"bytes"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

const appPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageText is one of the gateway's own pages; it has no script.
type pageText struct {
	Title, Text    string
	Link, LinkText string
	Again          bool // it loads itself again in a moment
}

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{{if .Again}}<meta http-equiv="refresh" content="2">
{{end}}<title>{{.Title}}</title>
<style>
:root { color-scheme: light dark; --page: #faf9f8; --raised: #fff; --line: #e3e0dd; --fg: #231e1b; --fg2: #524c48; --fg3: #6d6763; --on: #1d0f06; --focus: #c9661f; --accent: #e8762d; font: 14px/1.5 "Inter Variable", Inter, system-ui, sans-serif }
@media (prefers-color-scheme: dark) { :root { --page: #12100e; --raised: #1a1715; --line: #302c29; --fg: #f0ece8; --fg2: #bfbab5; --fg3: #9a948f } }
* { box-sizing: border-box }
body { display: flex; flex-direction: column; min-height: 100vh; min-height: 100dvh; margin: 0; padding: 1rem; background: var(--page); color: var(--fg) }
main { width: 100%; max-width: 30rem; margin: auto; padding: 1.75rem; border: 1px solid var(--line); border-radius: 8px; background: var(--raised) }
svg { display: block; margin-bottom: 1.25rem }
h1 { margin: 0 0 .5rem; font-size: 18px; line-height: 1.35; font-weight: 600; overflow-wrap: anywhere }
p { margin: 0; color: var(--fg2); overflow-wrap: anywhere }
p + p { margin-top: 1.25rem }
a { display: inline-flex; align-items: center; min-height: 36px; padding: 0 .875rem; border-radius: 6px; background: var(--accent); color: var(--on); font-weight: 600; text-decoration: none }
a:hover { filter: brightness(1.06) }
a:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px }
@media (pointer: coarse) { a { min-height: 44px } }
</style>
</head>
<body>
<main>
<svg width="24" height="24" viewBox="0 0 16 16" aria-hidden="true"><path fill="currentColor" d="M1 2h7v3.5h-2.500v5h2.500v3.500h-7z"/><path fill="#e8762d" d="M9.500 2h5.500v12h-5.500v-3h-2.500v-6h2.500z"/></svg>
<h1>{{.Title}}</h1>
<p>{{.Text}}</p>
{{if .Link}}<p><a href="{{.Link}}">{{.LinkText}}</a></p>
{{end}}</main>
</body>
</html>
`))

func page(w http.ResponseWriter, r *http.Request, status int, text pageText) {
	var b bytes.Buffer
	_ = pageTemplate.Execute(&b, text) // into memory, of our own words
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", appPolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes())
	}
}

// nothingHere is one page for every host without a pass, existing or not, so
// that nobody learns which instances there are.
func (g *Gateway) nothingHere(w http.ResponseWriter, r *http.Request) {
	page(w, r, http.StatusNotFound, pageText{
		Title: "There is nothing here", Text: "There is no such address, or you are not signed in for it. If it is an instance of yours, open it from the console.",
		Link: g.apps.Console.JoinPath("open", url.PathEscape(hostname(r.Host))).String(), LinkText: "Sign in and open it",
	})
}

// notRunning tells of an instance that has no guest now.
func (g *Gateway) notRunning(w http.ResponseWriter, r *http.Request, v app.Visit) {
	i := v.Instance
	text := sentence(i.Message)
	waits := i.State == cloud.StateQueued || i.State == cloud.StateStarting
	passes := i.State == cloud.StateStopping || i.State == cloud.StateDeleting
	switch {
	case waits:
		text += "This page opens by itself once it runs."
	case i.State == cloud.StateStopping:
		text += "It can be started again once it has stopped."
	case i.State == cloud.StateStopped || i.State == cloud.StateFailed:
		text += "Start it in the console, then load this page again."
	}
	page(w, r, http.StatusServiceUnavailable, pageText{Title: i.Name + " is " + string(i.State), Text: text, Link: g.consolePage(i), LinkText: "Show it in the console", Again: waits || passes})
}

// sentence makes one of a message, with a blank after it.
func sentence(message string) string {
	if message == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(message)
	return string(unicode.ToUpper(first)) + strings.TrimRight(message[size:], ".") + ". "
}

// unanswered tells of a running instance whose server did not answer.
func (g *Gateway) unanswered(w http.ResponseWriter, r *http.Request, v app.Visit, err error) {
	text := pageText{Title: "No answer yet", Text: "The server in " + v.Instance.Name + " did not answer. It may still be starting; this page tries again by itself.",
		Link: g.consolePage(v.Instance), LinkText: "Show it in the console", Again: true}
	status := http.StatusBadGateway
	if e := (*cloud.Error)(nil); asCloud(err, &e) {
		text.Text = sentence(e.Message) + "This page tries again by itself."
		if e.Kind == cloud.KindUnavailable {
			status = http.StatusServiceUnavailable
		}
	}
	page(w, r, status, text)
}

func (g *Gateway) consolePage(i cloud.Instance) string {
	return g.apps.Console.JoinPath("projects", i.ProjectID.String(), "instances", i.ID.String()).String()
}
