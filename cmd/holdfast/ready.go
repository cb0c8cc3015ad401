package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/operator"
)

const (
	// readyTimeout is how long a part may take to answer whether it is ready.
	readyTimeout = 2 * time.Second
	// readyFor is how long an answer is reused: however many ask, the nodes are asked once in that time.
	readyFor = time.Second
)

// readiness says for each part of this process whether it can do its work. It is safe for concurrent use.
type readiness struct {
	parts []readyPart
	ready *prometheus.Desc
	now   func() time.Time
	reuse time.Duration                                     // how long an answer is reused
	found func(ctx context.Context, part string, err error) // for the log; errors contain addresses, which the answer must not

	mu     sync.Mutex // held while asking the parts
	at     time.Time  // the time of answer
	answer readyAnswer
}

// readyPart is something that must work. Of several parts of one kind, one is enough: there are several nodes so that
// one may be down, and a process that reports itself not ready gets no requests at all.
type readyPart struct {
	kind, name string
	check      func(context.Context) error
}

// notReady is a problem in words that anybody may read.
type notReady string

func (n notReady) Error() string { return string(n) }

type readyAnswer struct {
	Ready bool                  `json:"ready"`
	Parts map[string]readyState `json:"parts"`
}

type readyState struct {
	Ready   bool   `json:"ready"`
	Problem string `json:"problem,omitempty"`
}

func (s *service) newReadiness() *readiness {
	r := &readiness{ready: prometheus.NewDesc("holdfast_ready", "1 if this part of the process can do its work, as /readyz says.", []string{"part"}, nil),
		now: time.Now, reuse: s.readyFor, found: func(ctx context.Context, part string, err error) {
			s.log.WarnContext(ctx, "not ready", "part", part, "error", err)
		}}
	add := func(kind, name string, check func(context.Context) error) {
		r.parts = append(r.parts, readyPart{kind, name, check})
	}
	add("database", "database", s.writable)
	add("migrations", "migrations", func(ctx context.Context) error { return migrated(ctx, s.pool) })
	for i, client := range s.clients {
		add("node", "node "+client.Name(), func(ctx context.Context) error { return nodeReady(ctx, client, s.config.Nodes[i].Sends) })
	}
	for _, l := range s.listeners {
		add("streams", "streams of "+l.Node(), func(context.Context) error {
			if !l.Up() {
				return notReady("The node's streams are not open: what is paid is found by sweeps alone, later.")
			}
			return nil
		})
	}
	return r
}

// writable reports whether the database can be written to, and keeps what it confirms. A database that was demoted, or
// the replica that an address leads to after a fail-over, answers every question, but is useless. One that took over may
// have other settings than the one that [durable] was asked about when the process started.
func (s *service) writable(ctx context.Context) error {
	var readOnly, mode string
	err := s.pool.QueryRow(ctx, "SELECT current_setting('transaction_read_only'), current_setting('synchronous_commit')").Scan(&readOnly, &mode)
	if err != nil {
		return err
	}
	var problem notReady
	switch forgets := forgetful(mode); {
	case readOnly == "on":
		problem = "It takes no writes: it is a replica, or was set to read only."
	case forgets != "" && !s.config.Development:
		problem = notReady("It has " + forgets + ".")
	default:
		return nil
	}
	s.pool.Reset() // a session keeps the settings that it began with, also once they are mended
	return problem
}

// nodeReady reports whether a node can be used. Its graph counts only if it sends payments: issuing an invoice needs
// none. It may have been restarted with keysend, for which it would have been refused at our start.
func nodeReady(ctx context.Context, client *lightning.Client, sends bool) error {
	info, err := client.Info(ctx)
	switch {
	case err != nil:
		return err
	case info.Keysend:
		return notReady("It takes payments by keysend: switch accept-keysend off.")
	case !info.Synced:
		return notReady(fmt.Sprintf("It is behind the chain, at height %d.", info.Height))
	case sends && !info.Graph:
		return notReady("It has not synced to the graph of channels yet, and payments leave through it.")
	}
	return nil
}

// problem is what is wrong, without addresses.
func problem(err error) string {
	var plain notReady
	switch {
	case errors.As(err, &plain):
		return plain.Error()
	case errors.Is(err, errSchema):
		return err.Error()
	case errors.Is(err, lightning.ErrLocked):
		return "Its wallet is locked: unlock it."
	case errors.Is(err, lightning.ErrUntrusted):
		return "Its certificate is not the one that is trusted here: copy the new one, and restart."
	case errors.Is(err, lightning.ErrUnreachable):
		return "It cannot be reached."
	case errors.Is(err, lightning.ErrNotPermitted), errors.Is(err, lightning.ErrMacaroonExpired):
		return "It does not accept the macaroon."
	}
	return "It cannot be reached, or does not answer as it should: the log says more."
}

// look asks every part, unless somebody did so just before. A part that does not answer in time is not ready.
func (r *readiness) look(ctx context.Context) readyAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && r.now().Sub(r.at) < r.reuse {
		return r.answer
	}
	// The first one to ask may go away, but the others still wait for the answer.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	errs := make([]error, len(r.parts))
	var group sync.WaitGroup
	for i, part := range r.parts {
		group.Go(func() { errs[i] = part.check(limited) })
	}
	group.Wait()
	r.answer = readyAnswer{Ready: true, Parts: make(map[string]readyState, len(r.parts))}
	works := map[string]bool{} // by kind
	for i, part := range r.parts {
		state := readyState{Ready: errs[i] == nil}
		if errs[i] != nil {
			state.Problem = problem(errs[i])
			r.found(ctx, part.name, errs[i])
		}
		works[part.kind] = works[part.kind] || state.Ready
		r.answer.Parts[part.name] = state
	}
	for _, ready := range works {
		r.answer.Ready = r.answer.Ready && ready
	}
	r.at = r.now()
	return r.answer
}

// named is the same answer for people, in the order in which the parts were added.
func (r *readiness) named(ctx context.Context) []operator.Part {
	answer, parts := r.look(ctx), make([]operator.Part, len(r.parts))
	for i, part := range r.parts {
		parts[i] = operator.Part{Name: part.name, Problem: answer.Parts[part.name].Problem}
	}
	return parts
}

// Describe implements prometheus.Collector.
func (r *readiness) Describe(to chan<- *prometheus.Desc) { to <- r.ready }

// Collect implements prometheus.Collector.
func (r *readiness) Collect(to chan<- prometheus.Metric) {
	for name, part := range r.look(context.Background()).Parts {
		value := 0.0
		if part.Ready {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(r.ready, prometheus.GaugeValue, value, name)
	}
}

// serve answers 200 if one part of every kind is ready, else 503.
func (r *readiness) serve(w http.ResponseWriter, request *http.Request) {
	answer := r.look(request.Context())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // the client may have gone
}
