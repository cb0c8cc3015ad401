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

// asset is a file of the client as it is sent, compressed once at the start.
type asset struct {
	path        string // has a hash of the content: other content has another path
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
		panic(err) // the level is valid, and memory takes everything
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
	_, _ = w.Write(content) // the client may be gone
}

// forEver serves what never changes under its path.
func (a asset) forEver() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		a.send(w, r, http.StatusOK)
	}
}

// ofAnotherVersion serves files whose names have another hash. While processes are replaced one after the other, the
// page of one may ask another for its files. It gets the files of the version that is here, and nothing caches them
// under that name.
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

// withoutHash is the part of a path that all versions of a file share.
func withoutHash(at string) string {
	base, _, _ := strings.Cut(at, "-")
	return base + path.Ext(at)
}

// asPage serves what people open. It names the newest assets, so browsers ask for it each time.
func (a asset) asPage(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Content-Security-Policy", contentPolicy)
		w.Header().Set("X-Frame-Options", "DENY")
		a.send(w, r, status)
	}
}
