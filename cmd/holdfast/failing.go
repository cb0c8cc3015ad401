package main

import (
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
)

// failing are the codes by which PostgreSQL says that its machine or its files fail: no disk or memory is left, or what
// is on the disk cannot be read or is damaged. It goes on and answers what it can, so it looks ready.
var failing = []string{"53100", "53200", "58000", "58030", "58P01", "58P02", "XX001", "XX002"}

// failures counts these answers, on whatever connection of a pool they come.
type failures struct{ *prometheus.CounterVec }

func newFailures() failures {
	f := failures{prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "holdfast", Name: "database_failures_total",
		Help: "Answers by which PostgreSQL says that its machine or its files fail, by code: 53100 is a full disk, XX001 and XX002 are damaged data."}, []string{"code"})}
	for _, code := range failing {
		f.WithLabelValues(code) // start at 0: an alert on increases would miss the first one of a process
	}
	return f
}

// watch counts on connections with this configuration.
func (f failures) watch(c *pgconn.Config) {
	next := c.OnPgError
	c.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if slices.Contains(failing, err.Code) {
			f.WithLabelValues(err.Code).Inc()
		}
		return next(conn, err)
	}
}
