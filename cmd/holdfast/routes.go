package main

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
	"github.com/a-seed-a7aed72f/holdfast/operator"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	if s.api != nil {
		mux.Handle("/", s.client)
		mux.Handle("/qr", s.counted(s.client)) // drawing a code takes two milliseconds
		for _, path := range []string{"/graphql", "/uploads", "/uploads/", "/playground", "/playground/"} {
			mux.Handle(path, s.api)
		}
	}
	if s.addresses != nil {
		mux.Handle("/.well-known/lnurlp/", s.addresses)
		mux.Handle("/lnurlp/", s.addresses)
		mux.Handle(keyauth.Path, s.addresses)
	}
	if s.operator != nil {
		mux.Handle(operator.Path, s.operator)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readiness.serve)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	return s.traced(mux)
}

// counted counts a request as one to the API before next answers it.
func (s *service) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, wait, err := s.api.Ask(r, false)
		if refusal, ok := paidaction.AsRefusal(err); ok {
			w.Header().Set("Retry-After", strconv.Itoa(wait))
			http.Error(w, refusal.Message, http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
