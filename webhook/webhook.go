// Package webhook tells servers of users, and the operator's, of what becomes of actions (Standard Webhooks 1.0.0): at least once, signed, in
// no promised order. A message is written by the statement that writes the step it tells of; a job delivers it.
package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/internal/seal"
)

// Bounds.
const (
	most       = 10                  // webhooks of one owner
	overlap    = 24 * time.Hour      // for how long the secret before signs too
	mostFormer = 8                   // how many of those before that one do, where it was rotated so often in that time
	tolerated  = 72 * time.Hour      // for how long everything may fail before a webhook is disabled
	kept       = 30 * 24 * time.Hour // for how long a message that has ended is in the log
)

// Jobs stores the jobs that deliver messages, in the transaction that takes them out of the outbox.
type Jobs interface {
	InsertDeliveries(ctx context.Context, tx pgx.Tx, messages ...int64) error
}

// Config is what webhooks are made of. Pool, Outside and Secret are needed, the rest has defaults.
type Config struct {
	Pool    *pgxpool.Pool
	Outside *outside.Client
	Jobs    Jobs             // needed by Queue alone
	Secret  []byte           // at least 32 bytes; what secrets are encrypted with is derived from it
	Now     func() time.Time // default time.Now
	Random  io.Reader        // default crypto/rand
	Log     *slog.Logger     // default slog.Default()
}

// Webhooks are those of all users and of the operator. It is safe for concurrent use, in any number of processes.
type Webhooks struct {
	Config
	box    *seal.Box
	shares shares
}

// New makes the service. It calls nobody yet.
func New(c Config) (*Webhooks, error) {
	if c.Pool == nil || c.Outside == nil {
		return nil, errors.New("webhook: a database pool and a client for the outside are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	box, err := seal.New(c.Secret, "holdfast webhook secret 1", c.Random)
	if err != nil {
		return nil, err
	}
	return &Webhooks{Config: c, box: box}, nil
}

// now is the injected time in the precision of the database.
func (w *Webhooks) now() time.Time { return w.Now().UTC().Truncate(time.Microsecond) }

// Webhook is one as its owner sees it. What it is signed with is never shown again.
type Webhook struct {
	ID           int64      `json:"id"`
	URL          string     `json:"url"`
	Events       []string   `json:"events"` // none stands for all
	FailingSince *time.Time `json:"failing_since"`
	DisabledAt   *time.Time `json:"disabled_at"`
	CreatedAt    time.Time  `json:"created_at"`
}

func shown(row db.Webhook) Webhook {
	return Webhook{ID: row.ID, URL: row.Url, Events: row.Events, FailingSince: row.FailingSince, DisabledAt: row.DisabledAt, CreatedAt: row.CreatedAt}
}

// Message is one as the owner of its webhook sees it.
type Message struct {
	ID            int64
	Type          string
	Action        *int64 // nil for a test, and where it is another's who paid
	CreatedAt     time.Time
	NextAttemptAt *time.Time
	EndedAt       *time.Time // nil while it is to be tried
	Delivered     bool
	Attempts      []Attempt
}

// Attempt is one call of a webhook.
type Attempt struct {
	At     time.Time
	MS     int64  // how long it took
	Status *int   // of the answer; nil where none came
	Code   string // one of those above Deliver
}
