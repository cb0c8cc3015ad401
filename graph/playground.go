package graph

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed playground
var playgroundFiles embed.FS

// contentPolicy tells the browser to load nothing from elsewhere. The editor may still set its own styles from its
// script.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// playground serves GraphiQL from the binary. It loads nothing from elsewhere, and the browser is told to refuse that.
func playground() http.Handler {
	files, err := fs.Sub(playgroundFiles, "playground")
	if err != nil {
		panic(err) // the path above is the embedded one
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", contentPolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		server.ServeHTTP(w, r)
	})
}
