package paidaction

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/gather"
	"github.com/a-seed-a7aed72f/holdfast/internal/places"
)

// Job is work to be done later. It carries ids, never a decision: the worker reads the rows again.
type Job struct {
	Kind   JobKind
	Action int64
	With   []int64   // further actions the job is for, which took a step together (JobAfterPaid, JobAdvance)
	At     time.Time // not before; zero means now
	// Settles says that the receiver is paid, and the payer's payment is still to be taken. It waits behind no other kind
	// (spec 01 §1.1, 03 §3.3): after the safety height the payment may be gone, and ours is not.
	Settles bool
}

// JobKind says which of the engine's methods does the job.
type JobKind string

// The jobs.
const (
	JobAdvance     JobKind = "advance"      // Engine.Drive; for several actions Engine.StandBy
	JobAfterPaid   JobKind = "after_paid"   // Engine.AfterPaid
	JobAfterFailed JobKind = "after_failed" // Engine.AfterFailed
	JobAgain       JobKind = "again"        // Engine.Again
)

// Jobs stores jobs in the transaction that decides on them, so that after a crash there is both or neither (spec
// 05.26).
type Jobs interface {
	Insert(ctx context.Context, tx pgx.Tx, jobs ...Job) error
}

// Hooks tell the outside what happened. All may be nil. Changed and Moved are called after the commit, Conflict and
// Fault after a rollback; none of these four may block. Wait and Beside are for callers that schedule everything
// themselves: they take as long as the work they are called for.
type Hooks struct {
	Changed  func(action int64)            // the state or invoice changed of an action that somebody may be waiting for
	Moved    func(step Step)               // for metrics
	Conflict func(code string)             // the database broke a deadlock (40P01) or refused to serialise (40001)
	Fault    func(action int64, err error) // an action's own code failed, and not with a refusal
	// Wait is called before an attempt waits for those paid before it, and blocks until still is false or ctx ends. It
	// is for a simulation, which decides itself who goes on.
	Wait   func(ctx context.Context, still func() bool)
	Beside Beside // default InGoroutine
}

const (
	callTimeout = 30 * time.Second // how long a state that owes a call may last
	retryWindow = time.Hour        // how long a failed action may be retried
	maxAttempts = 5                // attempts at one action, the first included
	maxPrepared = 3                // attempts after this one begin only when the payer asks (WillRetry)
)

// MinInvoiceExpiry is the least of Settings.InvoiceExpiry: a node counts whole seconds, and of the first one a part is
// over when it is asked.
const MinInvoiceExpiry = 2 * time.Second

// SettleBlocks is by how many blocks the final CLTV must exceed HoldExpiryDelta and SafetyBlocks together, so that hours
// are left in which to settle a held payment (spec 01 §1.5).
const SettleBlocks = 24

// Settings bound what the engine does. The zero value of each field stands for its default.
type Settings struct {
	InvoiceExpiry   time.Duration // how long a payer has; default 10 minutes
	IssueTimeout    time.Duration // when an invoice that was never issued fails; default 30 seconds
	CLTVDelta       uint32        // final CLTV of invoices in blocks; default 80
	HoldExpiryDelta uint32        // LND's holdexpirydelta: it gives a held payment back this many blocks early; default 18
	SafetyBlocks    uint32        // our distance from that, in blocks; default 12
	MaxPending      int64         // open invoices per payer, and per address of anonymous payers; default 100
	SearchTimeout   time.Duration // to find a way to a receiver's wallet, of the 30 seconds that a request or a job has: slow wallets, nodes that hang and a probe can take longer together; default 22 seconds
	SweepWorkers    int           // actions that a sweep looks at concurrently; default 8
	MaxGroup        int           // actions paid from balances in one transaction; 1: each has its own; default 32

	MaxWalletPending int64 // open invoices that wrap those of one receiver's wallet; default 25
	MaxForwards      int64 // payments under way to one receiver; default 5
	MaxForwarded     Msat  // total of these and their routing budgets; default 1,000,000 sats
	MaxWithdrawals   int64 // withdrawals of one payer under way; default 10
}

func (s *Settings) defaults() error {
	s.InvoiceExpiry = cmp.Or(s.InvoiceExpiry, 10*time.Minute)
	s.IssueTimeout = cmp.Or(s.IssueTimeout, 30*time.Second)
	s.CLTVDelta = cmp.Or(s.CLTVDelta, 80)
	s.HoldExpiryDelta = cmp.Or(s.HoldExpiryDelta, 18)
	s.SafetyBlocks = cmp.Or(s.SafetyBlocks, 12)
	s.MaxPending = cmp.Or(s.MaxPending, 100)
	s.SearchTimeout = cmp.Or(s.SearchTimeout, 22*time.Second)
	s.SweepWorkers = cmp.Or(s.SweepWorkers, 8)
	s.MaxGroup = cmp.Or(s.MaxGroup, 32)
	s.MaxWalletPending = cmp.Or(s.MaxWalletPending, 25)
	s.MaxWithdrawals = cmp.Or(s.MaxWithdrawals, 10)
	s.MaxForwards = cmp.Or(s.MaxForwards, 5)
	s.MaxForwarded = cmp.Or(s.MaxForwarded, 1_000_000_000)
	if s.InvoiceExpiry < MinInvoiceExpiry || s.IssueTimeout <= 0 || s.SearchTimeout <= 0 || s.MaxPending < 1 || s.SweepWorkers < 1 || s.MaxGroup < 1 ||
		s.MaxWalletPending < 1 || s.MaxForwards < 1 || s.MaxForwarded < 1 || s.MaxWithdrawals < 1 {
		return errors.New("settings: durations and limits must be above zero, and an invoice must live for two seconds at least")
	}
	if s.CLTVDelta < s.HoldExpiryDelta+s.SafetyBlocks+SettleBlocks {
		return fmt.Errorf("settings: a final CLTV of %d blocks leaves less than %d blocks above the safety height (%d + %d)",
			s.CLTVDelta, SettleBlocks, s.HoldExpiryDelta, s.SafetyBlocks)
	}
	return nil
}

// Config is what an Engine is made of. Pool, Nodes, Jobs, Actions and Secret are required, the rest has defaults.
type Config struct {
	Pool     *pgxpool.Pool
	Nodes    Nodes
	Jobs     Jobs
	Relay    Relay // without one nothing leaves: neither P2P nor withdrawals
	Turns    Turns // nil: nobody waits for anybody
	Actions  []Definition
	Secret   []byte           // at least 32 bytes; the secrets of anonymous payers are derived from it
	Now      func() time.Time // default time.Now
	Random   io.Reader        // default crypto/rand
	Log      *slog.Logger     // default slog.Default()
	Hooks    Hooks
	Settings Settings

	// TellFailed, if set, tells the payer that an action of any kind has failed and that no further attempt is
	// prepared without being asked for. It runs as a job after the commit, at least once, so it must be repeatable.
	TellFailed func(ctx context.Context, tx *Tx) error
	// ConfirmClock, if set, says why Now is not to be believed that an invoice's time is over, that of its node to issue
	// it, or that of a failed action to be retried. By a clock that is ahead every invoice would be cancelled before it
	// can be paid.
	ConfirmClock func(ctx context.Context) error
	// MayBegin, if set, says why nothing new may be begun now, in an error for callers; nor is a payment given back then
	// that may be held or sent, nor an invoice taken for never issued. It is asked once a transaction has its connection,
	// which may be the first to a server that has taken over.
	MayBegin func() error
}

// Engine performs paid actions. It is safe for concurrent use, and any number of engines may work on one database. Pay
// begins an action. Drive brings it on, whenever something may have happened; Sweep finds what nobody has driven.
type Engine struct {
	Config
	actions   map[string]Definition
	gathered  map[gatheringKey]*gather.Group[*member]
	reads     *gather.Group[*reading]
	follows   *gather.Group[*following]
	preparing *preparing
	clients   *places.Shares // one transaction for each address of anonymous payers
	payers    *places.Shares // two for each payer who is known: the second begins while the first commits
	keys      *places.Shares // one for each key under which strangers are asked

	lookUntil *atomic.Int64 // until then groups look at balances first; nanoseconds of Unix time
}

// New makes an engine. It refuses a configuration that cannot work.
func New(c Config) (*Engine, error) {
	if c.Pool == nil || c.Nodes == nil || c.Jobs == nil {
		return nil, errors.New("paidaction: a database pool, nodes and a job queue are needed")
	}
	if len(c.Secret) < 32 {
		return nil, errors.New("paidaction: the secret must have at least 32 bytes")
	}
	if err := c.Settings.defaults(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.ConfirmClock == nil {
		c.ConfirmClock = func(context.Context) error { return nil }
	}
	if c.MayBegin == nil {
		c.MayBegin = func() error { return nil }
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Hooks.Beside == nil {
		c.Hooks.Beside = InGoroutine
	}
	e := &Engine{Config: c, actions: map[string]Definition{}, gathered: map[gatheringKey]*gather.Group[*member]{},
		preparing: &preparing{of: map[int64]int{}}, lookUntil: new(atomic.Int64), clients: places.New(1), payers: places.New(2), keys: places.New(1)}
	e.reads = gathering(e, readsAtOnce, readPatience, e.read)
	e.follows = gathering(e, followsAtOnce, followPatience, e.followAll)
	for _, d := range c.Actions {
		kind := d.Spec().Kind
		if _, twice := e.actions[kind]; twice || kind == "" {
			return nil, fmt.Errorf("paidaction: action %q is defined twice, or has no name", kind)
		}
		if err := d.agrees(); err != nil {
			return nil, err
		}
		e.actions[kind] = d
		if d.grouped() {
			e.gatherings(d)
		}
	}
	return e, nil
}

// now is the injected time in the precision of the database, so that what is written reads back the same.
func (e *Engine) now() time.Time { return e.Now().UTC().Truncate(time.Microsecond) }

// SecretOf is the anonymous payer's proof that an action is theirs: it authorises cancelling, retrying and reading. It
// is derived, not stored, so that a repeated request gets it again (spec 01 §1.8.8). All attempts share that of the
// first.
func (e *Engine) SecretOf(genesis int64) string {
	mac := hmac.New(sha256.New, e.Secret)
	mac.Write([]byte("holdfast anonymous payer v1"))
	_ = binary.Write(mac, binary.BigEndian, genesis)
	return hex.EncodeToString(mac.Sum(nil))
}

// Caller is who asks: a known user, or an anonymous one with the secret of their action.
type Caller struct {
	User   *int64
	Secret string
	Client string // the network address; bounds the open invoices of anonymous payers, stored only as a keyed hash
	// May, if set, is asked last in the transaction that begins
	//   - a withdrawal,
	//   - a P2P attempt whose next one, which nobody asks for (Spec.Again), may be paid from a balance,
	//   - what may be free (Spec.Free), however it is paid.
	//
	// Before each of these the request may have waited, for a stranger's server or for its turn, and meanwhile the caller
	// may have lost the right to it. Its error is returned, and nothing is done.
	May func(ctx context.Context, q *db.Queries) error
}

// owns reports whether the action is the caller's.
func (e *Engine) owns(c Caller, payer *int64, genesis int64) bool {
	if payer != nil {
		return c.User != nil && *c.User == *payer
	}
	return c.Secret != "" && subtle.ConstantTimeCompare([]byte(c.Secret), []byte(e.SecretOf(genesis))) == 1
}

// ClientHash is the form in which an anonymous client's network address is stored.
func (e *Engine) ClientHash(client string) []byte {
	mac := hmac.New(sha256.New, e.Secret)
	mac.Write([]byte("holdfast client address v1"))
	mac.Write([]byte(client))
	return mac.Sum(nil)
}

func (e *Engine) changed(ids ...int64) {
	if e.Hooks.Changed != nil {
		for _, id := range ids {
			e.Hooks.Changed(id)
		}
	}
}

func (e *Engine) moved(s Step) {
	if e.Hooks.Moved != nil {
		e.Hooks.Moved(s)
	}
}
