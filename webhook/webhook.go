// Package webhook tells the servers of users and of the operator what becomes of actions (Standard Webhooks 1.0.0): at
// least once, signed, in no promised order. The statement that writes a step also writes the message about it; a job
// delivers the message. Begin with Deliver.
package webhook

import (
	"cmp"
	"context"
	"errors"
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
	overlap    = 24 * time.Hour      // how long an earlier secret still signs
	mostFormer = 8                   // how many earlier secrets still sign, at most, after frequent rotations
	tolerated  = 72 * time.Hour      // how long everything may fail before a webhook is disabled
	kept       = 30 * 24 * time.Hour // how long a message that has ended stays in the log

	shownAttempts = 50 // of a message, the newest: each time that its owner has it delivered again it has more
)

// Jobs stores the jobs that deliver messages, in the transaction that takes them out of the outbox. due says when each
// is to be delivered; the zero time is at once.
type Jobs interface {
	InsertDeliveries(ctx context.Context, tx pgx.Tx, messages []int64, due []time.Time) error
}

// Config is what webhooks are made of. Pool, Outside and Secret are required; the rest has defaults.
type Config struct {
	Pool    *pgxpool.Pool
	Outside *outside.Client
	Jobs    Jobs             // needed only by Queue
	Secret  []byte           // at least 32 bytes; the key that encrypts the webhooks' secrets is derived from it
	Now     func() time.Time // default time.Now
	Log     *slog.Logger     // default slog.Default()

	// ConfirmClock, if set, says why Now is not to be believed that a server has failed, or a message waited, for too
	// long (paidaction.Config).
	ConfirmClock func(ctx context.Context) error
}

// Webhooks are those of all users and of the operator. They are safe for concurrent use, in any number of processes.
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
	if c.ConfirmClock == nil {
		c.ConfirmClock = func(context.Context) error { return nil }
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	box, err := seal.New(c.Secret, "holdfast webhook secret 1")
	if err != nil {
		return nil, err
	}
	return &Webhooks{Config: c, box: box}, nil
}

// now is the injected clock's time, in the precision of the database.
func (w *Webhooks) now() time.Time { return w.Now().UTC().Truncate(time.Microsecond) }

// Webhook is a webhook as its owner sees it. Its secret is never shown again.
type Webhook struct {
	ID           int64      `json:"id"`
	URL          string     `json:"url"`
	Events       []string   `json:"events"` // none means all
	FailingSince *time.Time `json:"failing_since"`
	DisabledAt   *time.Time `json:"disabled_at"`
	CreatedAt    time.Time  `json:"created_at"`
}

func shown(row db.Webhook) Webhook {
	return Webhook{ID: row.ID, URL: row.Url, Events: row.Events, FailingSince: row.FailingSince, DisabledAt: row.DisabledAt, CreatedAt: row.CreatedAt}
}

// Message is a message as the owner of its webhook sees it.
type Message struct {
	ID            int64
	Type          string
	Action        *int64 // nil for a test, and where somebody else paid
	CreatedAt     time.Time
	NextAttemptAt *time.Time
	EndedAt       *time.Time // nil while it is still to be tried
	Delivered     bool
	Attempts      []Attempt
}

// Attempt is one call of a webhook.
type Attempt struct {
	At     time.Time
	MS     int64  // how long it took
	Status *int   // of the answer; nil if none came
	Code   string // one of those above Deliver
}
