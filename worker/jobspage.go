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

// NewJobsPage makes River's own page of jobs and queues, for operators, to be served below prefix, such as /jobs. It shows
// all jobs, so it belongs behind a login. Once somebody has opened it, River counts jobs in the background every ten
// seconds until ctx ends.
//
// Looking at a job and running it again is allowed, and never does harm. Cancelling or deleting a job, or pausing a
// queue, is refused: an action that lost its job waits for a sweep, and a held payment may run out of blocks meanwhile.
func NewJobsPage(ctx context.Context, pool *pgxpool.Pool, prefix string, log *slog.Logger) (http.Handler, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("make the page of jobs: %w", err)
	}
	page, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(client, nil), Logger: log, Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("make the page of jobs: %w", err)
	}
	start := sync.OnceFunc(func() {
		if err := page.Start(ctx); err != nil {
			log.WarnContext(ctx, "jobs are counted at each request", "error", err)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !reads && strings.TrimPrefix(r.URL.Path, prefix) != "/api/jobs/retry" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintln(w, `{"message": "Jobs can be run again here, and not be cancelled, deleted or held back: money waits for them."}`)
			return
		}
		start()
		page.ServeHTTP(w, r)
	}), nil
}
