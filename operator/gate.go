package operator

import (
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
)

// gate lets in whoever gives the key as the password that their browser asks for; the user name does not matter.
// Browsers also send the password with requests that other sites trigger. So any request that another site could have
// triggered is refused, unless it only reads.
func gate(key []byte, next http.Handler) http.Handler {
	inside := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		_, password, _ := r.BasicAuth()
		given, err := hex.DecodeString(strings.TrimSpace(password))
		if len(key) == 0 || err != nil || subtle.ConstantTimeCompare(given, key) != 1 {
			header.Set("WWW-Authenticate", `Basic realm="Holdfast: the password is the operator's key", charset="UTF-8"`)
			http.Error(w, "This page is the operator's: sign in with the key that HOLDFAST_OPERATOR_KEY holds.", http.StatusUnauthorized)
			return
		}
		inside.ServeHTTP(w, r)
	})
}

// contentPolicy forbids a page to load anything from elsewhere, and inline code and styles. River's page needs inline
// styles.
const (
	contentPolicy = policyBut + "; style-src 'self'"
	riversPolicy  = policyBut + "; style-src 'self' 'unsafe-inline'"
	policyBut     = "default-src 'none'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

func rivers(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", riversPolicy)
		page.ServeHTTP(w, r)
	})
}
