// Package bare is a zap as somebody would write it in an afternoon: an HTTP handler in front of the reference's tables,
// which has PostgreSQL do in two pipelined batches what the reference's script does in one transaction. It has no keys,
// no GraphQL, no history and no jobs. The benchmark compares the whole service with it (docs/performance.md).
package bare

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Settings are where the handler listens and what it works on.
type Settings struct {
	Listen      string // host:port
	DatabaseURL string // of a database with the reference's tables
	Connections int32
}

// users is how many the reference's schema has.
const users = 10_000

// Serve handles zaps until ctx ends.
func Serve(ctx context.Context, s Settings) error {
	config, err := pgxpool.ParseConfig(s.DatabaseURL)
	if err != nil {
		return err
	}
	config.MaxConns, config.MinConns = s.Connections, s.Connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("POST /graphql", handler{pool})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

//go:embed pay.sql
var pay string

// statements are those of pay.sql.
var statements = strings.Split(pay, ";\n")

const (
	debit = iota
	begin
	spent
	received
	count
	credit
)

type handler struct{ pool *pgxpool.Pool }

// zap is what the handler reads of a request of the load generator. It does not look at the query: it knows one.
type zap struct {
	Variables struct {
		Item int64 `json:"item,string"`
		Sats int64 `json:"sats"`
	} `json:"variables"`
}

// ServeHTTP answers as the service does. Any user but the author pays.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var z zap
	if err := json.NewDecoder(r.Body).Decode(&z); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	author, payer := 1+z.Variables.Item%users, 1+rand.Int64N(users-1)
	if payer >= author {
		payer++
	}
	id, err := h.pay(r.Context(), payer, author, z.Variables.Item, 1000*z.Variables.Sats)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"data":{"zap":{"id":"%d","state":"PAID","costMsat":"%d"}}}`, id, 1000*z.Variables.Sats)
}

// deadlock is PostgreSQL's code for a transaction that it ended because of one.
const deadlock = "40P01"

// pay takes a zap's cost in msat from a payer. Two payers who zap each other's items at the same moment deadlock, as in
// the reference; the one who was refused tries again.
func (h handler) pay(ctx context.Context, payer, author, item, msat int64) (action int64, err error) {
	for {
		action, err = h.try(ctx, payer, author, item, msat)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != deadlock {
			return action, err
		}
	}
}

func (h handler) try(ctx context.Context, payer, author, item, msat int64) (action int64, err error) {
	connection, err := h.pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer connection.Release()
	var ask pgx.Batch
	ask.Queue("BEGIN")
	ask.Queue(statements[debit], payer, msat).QueryRow(func(row pgx.Row) error { return row.Scan(&payer) })
	ask.Queue(statements[begin], payer, item, msat).QueryRow(func(row pgx.Row) error { return row.Scan(&action) })
	if err := connection.SendBatch(ctx, &ask).Close(); err != nil {
		_, undone := connection.Exec(ctx, "ROLLBACK")
		return 0, errors.Join(err, undone)
	}
	share := msat * 7 / 10
	var give pgx.Batch
	give.Queue(statements[spent], action, payer, -msat)
	give.Queue(statements[received], action, author, share)
	give.Queue(statements[count], item, msat)
	give.Queue(statements[credit], author, share)
	give.Queue("COMMIT")
	if err := connection.SendBatch(ctx, &give).Close(); err != nil {
		_, undone := connection.Exec(ctx, "ROLLBACK")
		return 0, errors.Join(err, undone)
	}
	return action, nil
}
