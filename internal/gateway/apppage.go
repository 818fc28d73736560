package gateway

import (
	"bytes"
	"html/template"
	"net/http"
	"net/url"

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
<meta name="viewport" content="width=device-width">
{{if .Again}}<meta http-equiv="refresh" content="5">
{{end}}<title>{{.Title}}</title>
<style>
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif }
body { margin: 20vh auto 0; max-width: 34rem; padding: 0 1.5rem }
h1 { font-size: 20px; font-weight: 600 }
a { color: inherit; font-weight: 600 }
</style>
</head>
<body>
<h1>{{.Title}}</h1>
<p>{{.Text}}</p>
{{if .Link}}<p><a href="{{.Link}}">{{.LinkText}}</a></p>
{{end}}</body>
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
		Title: "Nothing to see here", Text: "There is no such address, or you are not signed in for it. If it is an instance of yours, open it from the console.",
		Link: g.apps.Console.JoinPath("open", url.PathEscape(hostname(r.Host))).String(), LinkText: "Sign in and open it",
	})
}

// notRunning tells of an instance that has no guest now.
func (g *Gateway) notRunning(w http.ResponseWriter, r *http.Request, v app.Visit) {
	i := v.Instance
	text := i.Name + " is " + string(i.State) + "."
	if i.Message != "" {
		text += " " + i.Message
	}
	waits := i.State == cloud.StateQueued || i.State == cloud.StateStarting
	if waits {
		text += " This page tries again by itself."
	}
	page(w, r, http.StatusServiceUnavailable, pageText{Title: i.Name + " is " + string(i.State), Text: text, Link: g.consolePage(i), LinkText: "Show it in the console", Again: waits})
}

// unanswered tells of a running instance whose server did not answer.
func (g *Gateway) unanswered(w http.ResponseWriter, r *http.Request, v app.Visit, err error) {
	text := pageText{Title: "No answer yet", Text: "The server in " + v.Instance.Name + " did not answer. It may still be starting; this page tries again by itself.",
		Link: g.consolePage(v.Instance), LinkText: "Show it in the console", Again: true}
	status := http.StatusBadGateway
	if e := (*cloud.Error)(nil); asCloud(err, &e) {
		text.Text = v.Instance.Name + ": " + e.Message + ". This page tries again by itself."
		if e.Kind == cloud.KindUnavailable {
			status = http.StatusServiceUnavailable
		}
	}
	page(w, r, status, text)
}

func (g *Gateway) consolePage(i cloud.Instance) string {
	return g.apps.Console.JoinPath("projects", i.ProjectID.String(), "instances", i.ID.String()).String()
}
