package web

import (
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// maxInvoice is the largest request that is passed on to the demo wallet, in bytes.
const maxInvoice = 8 << 10

// demo passes an invoice on to the demo wallet, which pays it with the coins of a development network and answers how
// that went. A page of another site cannot send JSON without a preflight request.
func demo(wallet *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL, r.Out.Host = wallet, wallet.Host }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
			http.Error(w, "Send the invoice as application/json.", http.StatusUnsupportedMediaType)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxInvoice)
		proxy.ServeHTTP(w, r)
	})
}
