package graph

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed playground
var playgroundFiles embed.FS

// playground serves GraphiQL from the binary: nothing is fetched from elsewhere, and the browser is told to refuse to.
func playground() http.Handler {
	files, err := fs.Sub(playgroundFiles, "playground")
	if err != nil {
		panic(err) // the name above is the embedded one
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		server.ServeHTTP(w, r)
	})
}
