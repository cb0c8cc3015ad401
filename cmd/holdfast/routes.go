package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
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
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	return mux
}

// readyTimeout is how long a part may take to say that it is ready.
const readyTimeout = 2 * time.Second

// ready says for each part whether it is: 200 if all are, else 503. What is wrong in detail is in the log, since errors carry
// addresses.
func (s *service) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	parts := map[string]func() error{"database": func() error { return migrated(ctx, s.pool) }}
	for _, client := range s.clients {
		parts["node "+client.Name()] = func() error {
			chain, err := client.Chain(ctx)
			if err == nil && !chain.Synced {
				err = fmt.Errorf("behind the chain, at height %d", chain.Height)
			}
			return err
		}
	}
	for _, l := range s.listeners {
		parts["streams of "+l.Node()] = func() error {
			if !l.Up() {
				return fmt.Errorf("not open")
			}
			return nil
		}
	}
	answer := struct {
		Ready bool            `json:"ready"`
		Parts map[string]bool `json:"parts"`
	}{true, map[string]bool{}}
	var mu sync.Mutex
	var group sync.WaitGroup
	for name, check := range parts {
		group.Go(func() {
			err := check()
			mu.Lock()
			defer mu.Unlock()
			answer.Parts[name] = err == nil
			answer.Ready = answer.Ready && err == nil
			if err != nil {
				s.log.WarnContext(ctx, "not ready", "part", name, "error", err)
			}
		})
	}
	group.Wait()
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // who asked may have gone
}
