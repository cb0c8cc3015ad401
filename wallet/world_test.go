package wallet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is the service on a fresh database, and a node that reads the invoices of the test's servers.
type world struct {
	t testing.TB
	*wallet.Wallets
	*mint
	ctx  context.Context
	pool *pgxpool.Pool
	out  *enginetest.Log // the operator's log
}

func newWorld(t testing.TB, change ...func(*wallet.Config)) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), pool: pgtest.New(t), mint: &mint{issued: map[string]paidaction.Bolt11{}}, out: &enginetest.Log{}}
	c := wallet.Config{Pool: w.pool, Secret: []byte(strings.Repeat("s", 32)), Outside: outside.New(outside.Config{AllowPrivate: true}),
		Decode: w.decode, Log: slog.New(slog.NewJSONHandler(w.out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&c)
	}
	wallets, err := wallet.New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.Wallets = wallets
	return w
}

// mint writes invoices for the servers, and reads them as a node does.
type mint struct {
	mu     sync.Mutex
	issued map[string]paidaction.Bolt11
}

func (m *mint) invoice(amount paidaction.Msat, memo string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	bolt11 := fmt.Sprintf("lnsim1test%030d", len(m.issued)+1)
	m.issued[bolt11] = paidaction.Bolt11{Amount: amount, Description: memo}
	return bolt11
}

func (m *mint) decode(_ context.Context, bolt11 string) (paidaction.Bolt11, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	read, ok := m.issued[bolt11]
	if !ok {
		return read, errors.New("invoice not for current active network")
	}
	return read, nil
}

// read is what an invoice says.
func (w *world) read(bolt11 string) paidaction.Bolt11 {
	w.t.Helper()
	read, err := w.decode(w.ctx, bolt11)
	if err != nil {
		w.t.Fatalf("%q: %v", bolt11, err)
	}
	return read
}

var users atomic.Int64

// user makes one.
func (w *world) user() int64 {
	w.t.Helper()
	id, err := db.New(w.pool).InsertUser(w.ctx, db.InsertUserParams{Name: fmt.Sprintf("user_%d", users.Add(1)), CreatedAt: time.Now()})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// genesis makes an action that may be tried again.
func (w *world) genesis() (id int64) {
	w.t.Helper()
	err := w.pool.QueryRow(w.ctx, `INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args, result)
		VALUES ('ZAP', 'BALANCE', 'ZERO_COST', 'PAID', 0, now(), now(), '{}', '{}') RETURNING id`).Scan(&id)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// save saves a wallet that works.
func (w *world) save(user int64, s wallet.Settings) wallet.Wallet {
	w.t.Helper()
	saved, err := w.Save(w.ctx, user, 0, "", s, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return saved
}

// each asks a receiver's wallets, the first of which to issue an invoice is taken.
func (w *world) each(receiver, genesis int64, amount paidaction.Msat) (id int64, bolt11 string, err error) {
	w.t.Helper()
	err = w.Each(w.ctx, receiver, genesis, amount, "memo", func(from int64, issued string) error {
		id, bolt11 = from, issued
		return nil
	})
	return id, bolt11, err
}

// want is each where this wallet must be the one.
func (w *world) want(receiver, genesis, wallet int64) {
	w.t.Helper()
	id, _, err := w.each(receiver, genesis, 1000)
	if wallet == 0 && !isNone(err) || wallet != 0 && (err != nil || id != wallet) {
		w.t.Errorf("wallet %d issued the invoice, error %v; want wallet %d", id, err, wallet)
	}
}

func isNone(err error) bool { return errors.Is(err, wallet.ErrNoWallet) }

// failed notes a failed payment in a transaction of its own.
func (w *world) failed(wallet, genesis int64, reason paidaction.FailureReason) error {
	return db.InTransaction(w.ctx, w.pool, func(tx *db.Transaction) error {
		return w.Failed(w.ctx, db.New(tx), wallet, genesis, reason)
	})
}

// log is a wallet's, oldest first, as "ok CODE" or "CODE".
func (w *world) log(wallet int64) []string {
	w.t.Helper()
	rows, err := db.New(w.pool).LogsOfWallets(w.ctx, db.LogsOfWalletsParams{Wallets: []int64{wallet}, Before: 1 << 62, Page: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	entries := make([]string, len(rows))
	for i, r := range rows {
		entries[len(rows)-1-i] = map[bool]string{true: "ok "}[r.Ok] + r.Code
	}
	return entries
}

func (w *world) wantLog(wallet int64, want ...string) {
	w.t.Helper()
	if got := w.log(wallet); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("the log of wallet %d is %q, want %q", wallet, got, want)
	}
}

// everything is all text in the tables of wallets.
func (w *world) everything() (text string) {
	w.t.Helper()
	err := w.pool.QueryRow(w.ctx, `SELECT
		(SELECT coalesce(string_agg(w::text || encode(settings, 'escape'), ' '), '') FROM receiver_wallet w) ||
		(SELECT coalesce(string_agg(l::text, ' '), '') FROM wallet_log l)`).Scan(&text)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// codeOf is the code of a refusal.
func codeOf(err error) paidaction.Code {
	if refusal, ok := paidaction.AsRefusal(err); ok {
		return refusal.Code
	}
	return ""
}
