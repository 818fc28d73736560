// Package web carries the built console and the manual inside the binary. It
// imports nothing but the standard library. dist holds only a placeholder until
// `npm run build` has run: Built says which.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist all:docs
var files embed.FS

// Console gives the built console: index.html, assets/ (names carry a hash of
// their content), favicon.svg and theme.js.
func Console() fs.FS { return sub("dist") }

// Docs gives the manual as Markdown pages; the console shows them at /docs.
func Docs() fs.FS { return sub("docs") }

// Built reports whether the console was built before this binary was.
func Built() bool {
	_, err := fs.Stat(files, "dist/index.html")
	return err == nil
}

// NotBuilt is the page to answer with when it was not.
const NotBuilt = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Tenon: the console is not built</title>
<body style="font: 15px/1.5 system-ui, sans-serif; max-width: 36em; margin: 15vh auto; padding: 0 16px">
<h1 style="font-size: 20px">The console is not built into this binary</h1>
<p>The API works. To build the console, run <code>npm ci</code> and <code>npm run build</code> in the <code>web</code> folder, then build <code>tenond</code> again. <code>make run</code> does all of it.</p>
<p><a href="/docs/api">API reference</a></p>
</body>
</html>
`

func sub(dir string) fs.FS {
	f, err := fs.Sub(files, dir)
	if err != nil {
		panic(err) // the folder is named in the embed directive above
	}
	return f
}
