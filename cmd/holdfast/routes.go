package main

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
	"github.com/a-seed-a7aed72f/holdfast/operator"
)

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	if s.api != nil {
		mux.Handle("/", s.client)
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
