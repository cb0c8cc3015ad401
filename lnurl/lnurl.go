// Package lnurl serves lightning addresses: each user has name@domain, which any wallet that knows LNURL-pay can pay
// (LUD-06, 12, 16, 18 and 21). An incoming payment is the action RECEIVE, like any other action; this package speaks
// the protocol around it. It also takes the signatures of wallets that sign somebody in (LUD-04). Begin with
// NewHandler.
package lnurl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
	"github.com/a-seed-a7aed72f/holdfast/internal/places"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Askers says who asks, and whether they may. It is implemented by graph.API, so that limits are shared.
type Askers interface {
	// Ask counts a request without a key; pays says whether it counts as a paying one. It returns the address that the
	// request is from. The refusal of a request that comes too soon has the seconds to wait.
	Ask(r *http.Request, pays bool) (client string, wait int, err error)
}

// Config is what addresses are made of. Everything but Log and Patience is required.
type Config struct {
	Engine *paidaction.Engine
	Pool   *pgxpool.Pool
	Askers Askers
	Public *url.URL        // where people reach the service; never taken from a request, which could claim anything
	Most   paidaction.Msat // the most that can be sent at once; only whole sats count
	Secret []byte          // at least 32 bytes; the key that proves a verify URL to be ours is derived from it
	Log    *slog.Logger    // default slog.Default()

	Patience time.Duration // default Patience
}

// Patience is how long a request may take. Meanwhile the receiver's wallets may be asked for an invoice
// (SearchTimeout of paidaction.Settings); if none gives one, the remaining time is for an invoice of our own.
const Patience = 35 * time.Second

// NewHandler serves /.well-known/lnurlp/, /lnurlp/ and keyauth.Path.
func NewHandler(c Config) (http.Handler, error) {
	if c.Engine == nil || c.Pool == nil || c.Askers == nil || c.Public == nil || c.Public.Host == "" {
		return nil, errors.New("lnurl: an engine, a database pool, askers and the public URL are needed")
	}
	if c.Most < leastSendable || c.Most > paidaction.MaxMsat {
		return nil, errors.New("lnurl: the most that can be sent must be a sat or more, and no more than there is")
	}
	if len(c.Secret) < 32 {
		return nil, errors.New("lnurl: the secret must have at least 32 bytes")
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Patience = cmp.Or(c.Patience, Patience)
	c.Most -= c.Most % 1000
	s := &server{c, places.New(1)}
	mux := http.NewServeMux()
	mux.Handle("/.well-known/lnurlp/{name}", s.serve(false, s.describe))
	mux.Handle("/lnurlp/{name}", s.serve(true, s.order))
	mux.Handle("/lnurlp/verify/{hash}/{proof}", s.serve(false, s.verify))
	mux.Handle(keyauth.Path, s.serve(true, s.sign))
	return mux, nil
}

type server struct {
	Config
	signing *places.Shares // of challenges: one answer at a time
}

// answering answers one kind of request: it returns what is sent as JSON.
type answering func(ctx context.Context, r *http.Request, client string) (any, error)

// serve lets a request in from any web page: wallets run in browsers, and nothing here depends on who the visitor is.
// It answers only GET: a HEAD from somebody who only looks ahead must not make an invoice.
func (s *server) serve(pays bool, answer answering) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		switch r.Method {
		case http.MethodGet:
		case http.MethodOptions:
			h.Set("Access-Control-Allow-Methods", http.MethodGet)
			h.Set("Access-Control-Allow-Headers", "*")
			w.WriteHeader(http.StatusNoContent)
			return
		default:
			h.Set("Allow", http.MethodGet)
			tell(w, http.StatusMethodNotAllowed, refusal{"ERROR", "Use GET."})
			return
		}
		client, wait, err := s.Askers.Ask(r, pays)
		if err != nil {
			h.Set("Retry-After", strconv.Itoa(wait))
			s.refuse(w, r, http.StatusTooManyRequests, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.Patience)
		defer cancel()
		said, err := answer(ctx, r, client)
		switch {
		case errors.Is(err, paidaction.Refused(paidaction.CodeNotFound)):
			s.refuse(w, r, http.StatusNotFound, err)
		case err != nil:
			s.refuse(w, r, http.StatusOK, err) // wallets read the body, and some of them only with this status (LUD-01)
		default:
			tell(w, http.StatusOK, said)
		}
	})
}

// refusal is the negative answer of LNURL.
type refusal struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// refuse answers with the message of a refusal, of which there is one for what took too long. For any other error it says
// only that something went wrong.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	said, ok := paidaction.AsRefusal(err)
	if !ok && errors.Is(err, context.DeadlineExceeded) {
		said, ok = paidaction.Errorf(paidaction.CodeTryAgain, "This took too long and was given up. Try again in a moment.").Because(err), true
	}
	if !ok {
		if r.Context().Err() == nil {
			s.Log.ErrorContext(r.Context(), "a wallet's request failed", "error", err)
		}
		tell(w, status, refusal{"ERROR", "Something went wrong on our side. Try again in a moment."})
		return
	}
	if cause := said.Unwrap(); cause != nil {
		s.Log.Log(r.Context(), said.Level(), "a refusal with a cause", "code", said.Code, "error", cause)
	}
	tell(w, status, refusal{"ERROR", said.Message})
}

func tell(w http.ResponseWriter, status int, said any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(said) // the client may be gone
}
