// Package reconcile holds what is stored against what must be true (spec 01 §1.8): every invariant, against the database and
// against the nodes. It runs on a live system: it reads in one snapshot, takes no locks, and changes nothing.
package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Config says what is compared. Pool and Nodes are needed.
type Config struct {
	Pool  *pgxpool.Pool
	Nodes paidaction.Nodes
	// Senders are the names of the nodes that payments leave through: what they paid must be recorded.
	Senders []string
	Now     func() time.Time // default time.Now
	Grace   time.Duration    // how far past its deadline an open action may be; default 90 seconds: sweeps and a restart fit in
	Since   time.Duration    // how far back ended invoices are held against the nodes; default 24 hours
}

// Report is what was found.
type Report struct {
	OK         bool        `json:"ok"`
	Invariants []Invariant `json:"invariants"`
	LostMsat   int64       `json:"lost_msat"` // all that was ever booked as lost
	Losses     []Loss      `json:"losses,omitempty"`
}

// Loss is what one action was booked to have lost us: no break, but nothing to be hidden either. The newest are told.
type Loss struct {
	Action *int64 `json:"action"` // nil: booked by hand
	Msat   int64  `json:"msat"`
	Reason string `json:"reason,omitempty"` // an operator's, of what was written off
}

// Invariant is one of the ten of spec 01 §1.8.
type Invariant struct {
	ID      int      `json:"id"`
	Name    string   `json:"name"`
	Checked int64    `json:"checked"` // how many things were looked at
	Broken  int64    `json:"broken"`  // how many of them are not as they must be
	Breaks  []string `json:"breaks,omitempty"`
	Mend    string   `json:"mend,omitempty"` // what to do; only where something is broken
}

// shown is how many breaks of one invariant are told in full.
const shown = 20

func (i *Invariant) broke(format string, args ...any) {
	i.Broken++
	if len(i.Breaks) < shown {
		i.Breaks = append(i.Breaks, fmt.Sprintf(format, args...))
	}
}

// check is how one invariant is held against one snapshot of the database.
type check struct {
	id   int
	name string
	mend string
	look func(ctx context.Context, s *snapshot, found *Invariant) error
}

// snapshot is one moment of the database.
type snapshot struct {
	*db.Queries
	tx     pgx.Tx
	config Config
	now    time.Time
}

// checks are the invariants that the database alone can answer; the ninth is in nodes.go.
var checks = []check{
	{1, "money is conserved", "Compare the account's postings with its balance and deltas; book the difference against the loss account once its cause is known.", conservation},
	{2, "every paid action has one payment source and ended once", "Show the action with its history; an action that was paid without a posting has to be booked by hand.", payment},
	{3, "what an action did counts exactly if it was paid", "Show the action; mark its rows as its state says.", effects},
	{4, "one payment hash is paid once", "A second invoice with the same hash must be cancelled at its node at once.", hashes},
	{5, "a known outgoing preimage means a settled incoming payment, or a booked loss", "Show the action and the payment at its node: holdfast relay show ID.", outgoing},
	{6, "the history holds only steps of the machine and ends in the state", "Somebody changed rows past the service: compare with a backup.", history},
	{7, "every open action has a job and is not past its deadline", "Requeue it: holdfast actions requeue ID. If it does not move, its node is away or does not know the invoice: the log says which.", deadlines},
	{8, "one idempotency key is one action", "A unique index is missing: run holdfast migrate up, and refund the second action.", keys},
	{10, "no deadlocks", "Look for the statements in PostgreSQL's log; two transactions lock rows in different orders.", deadlocks},
}

// Run checks every invariant. An error means that it could not be told whether they hold.
func Run(ctx context.Context, c Config) (*Report, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Grace == 0 {
		c.Grace = 90 * time.Second
	}
	if c.Since == 0 {
		c.Since = 24 * time.Hour
	}
	report := &Report{OK: true}
	// Repeatable read: all queries see one moment, so that a payment that commits between two of them is no difference.
	tx, err := c.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	s := &snapshot{Queries: db.New(tx), tx: tx, config: c, now: c.Now()}
	for _, check := range checks {
		found := Invariant{ID: check.id, Name: check.name}
		if err := check.look(ctx, s, &found); err != nil {
			return nil, fmt.Errorf("invariant %d: %w", check.id, err)
		}
		report.add(found, check.mend)
	}
	if err := report.losses(ctx, s); err != nil {
		return nil, err
	}
	// The nodes are asked last, and outside the snapshot: their answers are newer than it.
	if err := tx.Rollback(ctx); err != nil {
		return nil, fmt.Errorf("end the snapshot: %w", err)
	}
	found, err := compareNodes(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("invariant 9: %w", err)
	}
	report.add(found, "Show the action and look the invoice up at its node. A payment that the node has and the action has not is booked by requeueing the action while it is open, else by hand.")
	return report, nil
}

// add keeps the invariants in the order of their numbers.
func (r *Report) add(found Invariant, mend string) {
	if found.Broken > 0 {
		r.OK = false
		found.Mend = mend
	}
	at := len(r.Invariants)
	for at > 0 && r.Invariants[at-1].ID > found.ID {
		at--
	}
	r.Invariants = append(r.Invariants[:at], append([]Invariant{found}, r.Invariants[at:]...)...)
}

func (r *Report) losses(ctx context.Context, s *snapshot) error {
	lost, err := ledger.Balance(ctx, s.Queries, ledger.LossSats)
	if err != nil {
		return err
	}
	r.LostMsat = -lost
	rows, err := s.Losses(ctx, shown)
	if err != nil {
		return fmt.Errorf("read the losses: %w", err)
	}
	for _, row := range rows {
		r.Losses = append(r.Losses, Loss{Action: row.ActionID, Msat: row.Msat, Reason: row.Reason})
	}
	return nil
}

func conservation(ctx context.Context, s *snapshot, found *Invariant) (err error) {
	if found.Checked, err = s.CountAccounts(ctx); err != nil {
		return err
	}
	rows, err := s.BreaksOfConservation(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		found.broke("%s: %d msat by its postings, %d msat by its balance", ledger.Account(r.Account), r.Posted, r.Held)
	}
	backing, err := ledger.Balance(ctx, s.Queries, ledger.BackingSats)
	if err != nil {
		return err
	}
	issued, err := ledger.Balance(ctx, s.Queries, ledger.IssuedCredits)
	if err != nil {
		return err
	}
	if backing != -issued {
		found.broke("%d msat of credits are in circulation, and %d msat of sats back them", -issued, backing)
	}
	return rewards(ctx, s, found)
}

func payment(ctx context.Context, s *snapshot, found *Invariant) (err error) {
	if found.Checked, err = s.CountActions(ctx); err != nil {
		return err
	}
	rows, err := s.BreaksOfPayment(ctx)
	for _, r := range rows {
		found.broke("action %d (%s): costs %d msat, %d msat posted from %d sources, ended %d times", r.ID, r.Method, r.CostMsat, r.Posted, r.Sources, r.Ends)
	}
	return err
}

func effects(ctx context.Context, s *snapshot, found *Invariant) (err error) {
	if found.Checked, err = s.CountEffects(ctx); err != nil {
		return err
	}
	rows, err := s.BreaksOfEffects(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		found.broke("the %s of action %d is %s, the action is %s", r.What, r.ActionID, r.Effect, r.State)
	}
	unperformed, err := s.BreaksOfResult(ctx)
	for _, r := range unperformed {
		found.broke("action %d is %s and was never performed", r.ID, r.State)
	}
	return err
}

// outgoing looks at both outgoing invariants at once: they are about the same rows.
func outgoing(ctx context.Context, s *snapshot, found *Invariant) (err error) {
	if found.Checked, err = s.CountRelay(ctx); err != nil {
		return err
	}
	rows, err := s.BreaksOfRelay(ctx)
	for _, r := range rows {
		switch {
		case r.Twice:
			found.broke("the hash of action %d is paid by another action too", r.ActionID)
		case r.ForeignInvoice:
			found.broke("action %d pays the hash of an invoice of ours that is another action's", r.ActionID)
		case r.Disagrees:
			found.broke("the outgoing payment of action %d is %s, the action is %s", r.ActionID, r.Stage, r.State)
		default:
			found.broke("of action %d, which is %s, %d msat are still set aside", r.ActionID, r.State, r.HeldMsat)
		}
	}
	return err
}

func hashes(ctx context.Context, s *snapshot, found *Invariant) (err error) {
	if found.Checked, err = s.CountInvoices(ctx); err != nil {
		return err
	}
	rows, err := s.BreaksOfHashes(ctx)
	for _, r := range rows {
		found.broke("actions %d and %d share a payment hash", r.First, r.Last)
	}
	return err
}

func history(ctx context.Context, s *snapshot, found *Invariant) (err error) {
	if found.Checked, err = s.CountHistory(ctx); err != nil {
		return err
	}
	rows, err := s.BreaksOfHistory(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		found.broke("action %d has the step %q to %q", r.ActionID, r.FromState, r.ToState)
	}
	missing, err := s.ActionsWithoutHistory(ctx)
	for _, id := range missing {
		found.broke("action %d has no history", id)
	}
	return err
}

func deadlines(ctx context.Context, s *snapshot, found *Invariant) (err error) {
	if found.Checked, err = s.CountOpen(ctx); err != nil {
		return err
	}
	rows, err := s.BreaksOfDeadlines(ctx, s.now.Add(-s.config.Grace))
	for _, r := range rows {
		if r.HasJob {
			found.broke("action %d is still %s, since its deadline at %s", r.ID, r.State, r.Deadline.Format(time.RFC3339))
		} else {
			found.broke("action %d is %s and has no job", r.ID, r.State)
		}
	}
	return err
}

func keys(ctx context.Context, s *snapshot, found *Invariant) (err error) {
	if found.Checked, err = s.CountKeys(ctx); err != nil {
		return err
	}
	rows, err := s.BreaksOfKeys(ctx)
	for _, r := range rows {
		found.broke("actions %d and %d have the same key", r.First, r.Last)
	}
	return err
}

// deadlocks asks PostgreSQL's statistics, a view that the generated queries cannot know.
func deadlocks(ctx context.Context, s *snapshot, found *Invariant) error {
	var n int64
	if err := s.tx.QueryRow(ctx, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		return fmt.Errorf("count deadlocks: %w", err)
	}
	found.Checked = 1
	if n > 0 {
		found.broke("PostgreSQL has broken %d deadlocks", n)
		found.Broken = n
	}
	return nil
}
