package worker

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"riverqueue.com/riverui"
)

// JobsPage is River's own page of jobs and queues, for operators: whoever reaches it sees all jobs. It belongs behind a login.
type JobsPage struct {
	prefix string
	page   *riverui.Handler
	start  func()
}

// NewJobsPage makes the page, to be served below prefix, such as /jobs. What River counts in the background once somebody has looked at
// the page, every ten seconds, it counts until ctx ends.
func NewJobsPage(ctx context.Context, pool *pgxpool.Pool, prefix string, log *slog.Logger) (*JobsPage, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("make the page of jobs: %w", err)
	}
	page, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(client, nil), Logger: log, Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("make the page of jobs: %w", err)
	}
	return &JobsPage{prefix, page, sync.OnceFunc(func() {
		if err := page.Start(ctx); err != nil {
			log.WarnContext(ctx, "jobs are counted at each request", "error", err)
		}
	})}, nil
}

// ServeHTTP implements http.Handler. A job may be looked at, and run again, which never does harm. To cancel or delete it, or to hold back
// a queue, is refused: an action that lost its job waits for a sweep, and what is held can run out of blocks meanwhile.
func (p *JobsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !reads && strings.TrimPrefix(r.URL.Path, p.prefix) != "/api/jobs/retry" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintln(w, `{"message": "Jobs can be run again here, and not be cancelled, deleted or held back: money waits for them."}`)
		return
	}
	p.start()
	p.page.ServeHTTP(w, r)
}
