package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// asset is a file of the client as it is sent, compressed once and for all.
type asset struct {
	path        string // with a hash of the content: another content is another path
	contentType string
	plain       []byte
	packed      []byte
}

func pack(name, contentType string, content []byte) asset {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // the level is known, and memory takes all
	}
	sum := sha256.Sum256(content)
	base, extension, _ := strings.Cut(name, ".")
	return asset{"/assets/" + base + "-" + hex.EncodeToString(sum[:6]) + "." + extension, contentType, content, packed.Bytes()}
}

func (a asset) send(w http.ResponseWriter, r *http.Request, status int) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Accept-Encoding")
	content := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = a.packed
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(status)
	_, _ = w.Write(content) // who asked may have gone
}

// forEver is for what never changes under its path.
func (a asset) forEver() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		a.send(w, r, http.StatusOK)
	}
}

// ofAnotherVersion sends a file whose name has another hash: while processes are replaced one after the other, the page of one may have its files asked of
// another. It gets the one that there is here, and nobody keeps it under that name.
func ofAnotherVersion(assets []asset) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, a := range assets {
			if withoutHash(a.path) == withoutHash(r.URL.Path) {
				w.Header().Set("Cache-Control", "no-store")
				a.send(w, r, http.StatusOK)
				return
			}
		}
		http.NotFound(w, r)
	}
}

// withoutHash is what two versions of a file have in common of their paths.
func withoutHash(at string) string {
	base, _, _ := strings.Cut(at, "-")
	return base + path.Ext(at)
}

// asPage is for what people open: it names the newest assets, so it is asked for each time.
func (a asset) asPage(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Content-Security-Policy", contentPolicy)
		w.Header().Set("X-Frame-Options", "DENY")
		a.send(w, r, status)
	}
}
