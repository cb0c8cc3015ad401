// Package reconcile compares what is stored with what must be true (spec 01 §1.8): every invariant, against the
// database and against the nodes. It runs on a live system: it reads snapshots, takes no locks that anybody waits for,
// and changes nothing that it looks at. Begin with Run. kinds.go lists all that can be found wrong, and what to do
// about each.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Config says what is compared. Pool and Nodes are required.
type Config struct {
	Pool  *pgxpool.Pool
	Nodes paidaction.Nodes
	// Senders are the names of the nodes that payments leave through: the payments that they made must be recorded.
	Senders []string
	// Issuers are the names of the nodes that issue invoices: the payments that they took must be recorded, too.
	Issuers []string
	Now     func() time.Time // default time.Now
	Grace   time.Duration    // how late an open action may be; default 90 seconds, enough for sweeps and a restart
	MaxWait time.Duration    // how long a withdrawal may wait for a node that can send it; default paidaction.MaxWait
	Since   time.Duration    // how far back ended invoices are compared with the nodes; default 24 hours
	// Again is how long to wait before looking once more at what seems broken: what has moved by then was only under
	// way, between a node's answer and our row. 0: look once, since nothing is running.
	Again time.Duration
	// Changed makes this a partial run: of whatever has moved or was booked since then, and of everything open. It
	// leaves out what had ended before, and the sum of all postings. The zero time: everything.
	Changed time.Time
	// Within is how long a partial run may take; 0: no limit. After half of that time, the changed actions that are
	// left go to the next run; after three quarters, nodes are not asked any more.
	Within time.Duration
	// Earlier is what an earlier run has found: a partial run looks at it again, however long ago it moved.
	Earlier []Break

	marks *Marks // everything after these is looked at, whatever its time says; nil: only Changed decides
	page  int    // how many changed actions are looked at between two looks at the clock; default page
}

func (c Config) defaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Grace = cmp.Or(c.Grace, 90*time.Second)
	c.MaxWait = cmp.Or(c.MaxWait, paidaction.MaxWait)
	c.Since = cmp.Or(c.Since, 24*time.Hour)
	c.page = cmp.Or(c.page, page)
	return c
}

// statementTimeout is how long one statement may take. The sum of all postings may take ten times as long.
const statementTimeout = time.Minute

// patient lets each statement take as long as PostgreSQL lets it: PostgreSQL ends it after statementTimeout, or ten times
// that.
func patient(ctx context.Context) context.Context { return dbconn.Within(ctx, 11*statementTimeout) }

// Report is what was found.
type Report struct {
	OK         bool        `json:"ok"` // everything was looked at, and nothing is broken
	Invariants []Invariant `json:"invariants"`
	Unknown    []string    `json:"unknown,omitempty"` // what could not be looked at, and why
	Seconds    float64     `json:"seconds"`           // how long it took
	LostMsat   int64       `json:"lost_msat"`         // everything that was ever booked as lost
	Archived   int64       `json:"archived"`          // actions checked without their archived history and postings
	Losses     []Loss      `json:"losses,omitempty"`
	// Unasked is the time since which changes have to be looked at again once every node answers: earlier runs could
	// not ask all nodes about them.
	Unasked *time.Time `json:"unasked,omitempty"`
	// Marks say how far history and postings went when the last run that looked at all changes began; MarksBefore, the
	// same for the run before it. Where the clocks of processes differ, times do not tell what is new, so the next run
	// goes on from MarksBefore. Marks would not do: transactions that had not committed when the last run began may
	// have drawn lower numbers.
	Marks       *Marks `json:"marks,omitempty"`
	MarksBefore *Marks `json:"marks_before,omitempty"`

	reached time.Time // later changes were left to the next run; zero: none were
}

// Marks are the last row of the history and the last posting at one moment.
type Marks struct {
	History int64 `json:"history"`
	Posting int64 `json:"posting"`
}

// Loss is what we lost through one action, as booked. It is no break, but must not be hidden either. Only the newest
// are reported.
type Loss struct {
	Action *int64 `json:"action"` // nil: booked by hand
	Msat   int64  `json:"msat"`
	Reason string `json:"reason,omitempty"` // an operator's, where the action was written off; else that of the postings
}

// Invariant is one of the ten of spec 01 §1.8.
type Invariant struct {
	ID      int     `json:"id"`
	Name    string  `json:"name"`
	Checked int64   `json:"checked"` // how many things were looked at
	Broken  int64   `json:"broken"`  // how many of them are not as they must be
	Breaks  []Break `json:"breaks,omitempty"`
}

// Names are the names of the invariants, the first of which is 1.
var Names = []string{
	"money is conserved",
	"every paid action has one payment source and ended once",
	"what an action did counts exactly if it was paid",
	"one payment hash is paid once",
	"a known outgoing preimage means a settled incoming payment, or a booked loss",
	"the history holds only steps of the machine and ends in the state",
	"every open action has a job and is not past its deadline",
	"one idempotency key is one action",
	"the nodes and we agree",
	"no deadlocks",
}

const (
	// shown is how many losses, and how many differing accounts, are reported.
	shown = 20
	// page is how many actions are looked at in one snapshot.
	page = 1000
	// stock is how many ids are read at once. Each read that looks for changes goes through all of them, whatever the
	// limit.
	stock = 200 * page
	// remembered is how many breaks are looked at again and reported. Those beyond it are only counted, as they were
	// first seen.
	remembered = 1000
)

// run is one look at everything.
type run struct {
	Config
	checked [10]int64
	suspect []Break
	beyond  [10]int64 // breaks that were not remembered
	seen    map[string]bool
	silent  map[string]error // nodes that do not answer

	nodeless bool // there is something to compare, but no node at all

	archivedTo int64 // the history and the postings of actions up to this one are archived, as of the present snapshot
	archived   int64 // how many such actions were looked at

	began, reached time.Time // as in a report
}

// over reports whether a run has used up so many quarters of its time.
func (r *run) over(quarters time.Duration) bool {
	return r.Within > 0 && r.Now().Sub(r.began) >= r.Within*quarters/4
}

var errNoTime = errors.New("the time of this run was over before everything was asked")

// Run checks every invariant. An error means that it could not be determined whether they hold. A node that does not
// answer is no error; the report says so.
//
// The rows of an action are compared in one snapshot for each page of actions. So a payment that commits between two
// queries is no difference, and no snapshot lasts so long that it keeps the database from cleaning up. What concerns
// all accounts is read in one snapshot, too. The nodes are asked outside any transaction.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &run{Config: c.defaults(), seen: map[string]bool{}, silent: map[string]error{}}
	r.began = r.Now()
	ctx = patient(ctx)
	report := &Report{}
	if err := r.whole(ctx, report); err != nil {
		return nil, err
	}
	if err := r.everyAction(ctx); err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if err := r.everyPayment(ctx); err != nil {
		return nil, err
	}
	if err := r.everyTaken(ctx); err != nil {
		return nil, err
	}
	r.keepUnknown()
	if len(r.suspect) > 0 && c.Again > 0 {
		if err := r.lookAgain(ctx); err != nil {
			return nil, err
		}
	}
	r.tell(report)
	report.Archived, report.reached = r.archived, r.reached
	report.Seconds = r.Now().Sub(r.began).Seconds()
	return report, nil
}

// found records a break, once.
func (r *run) found(b Break) {
	switch key := b.key(); {
	case r.seen[key]:
	case len(r.suspect) >= remembered:
		r.beyond[b.kind.Invariant-1]++
	default:
		r.seen[key] = true
		r.suspect = append(r.suspect, b)
	}
}

func (r *run) look(invariant int, things int64) { r.checked[invariant-1] += things }

// lookAgain keeps only those breaks that a second look finds, too. What concerns the whole database was true in its
// snapshot, and stays.
func (r *run) lookAgain(ctx context.Context) error {
	timer := time.NewTimer(r.Again)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	second := &run{Config: r.Config, seen: map[string]bool{}, silent: r.silent, began: r.began}
	for part := range slices.Chunk(actionsOf(r.suspect), page) {
		if err := second.actions(ctx, part); err != nil {
			return err
		}
	}
	if err := second.open(ctx); err != nil {
		return err
	}
	r.suspect = slices.DeleteFunc(r.suspect, func(b Break) bool {
		unasked := b.kind.Invariant == 9 && r.silent[b.Node] != nil
		return !b.lasting() && !second.seen[b.key()] && !unasked
	})
	return nil
}

// keepUnknown keeps what an earlier run has found at a node that cannot be asked now.
func (r *run) keepUnknown() {
	for _, b := range r.Earlier {
		if b.kind != nil && r.silent[b.Node] != nil {
			r.found(b)
		}
	}
}

// breaks returns all breaks of this report, in the form in which the next run takes them as Earlier.
func (report *Report) breaks() (all []Break) {
	for _, i := range report.Invariants {
		for _, b := range i.Breaks {
			at := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Invariant == i.ID && k.Name == b.Kind })
			if at >= 0 { // else an older version of the program found it
				b.kind = kinds[at]
				all = append(all, b)
			}
		}
	}
	return all
}

// lasting reports whether a break cannot go away by itself: it is not about rows that are under way.
func (b Break) lasting() bool { return len(b.Actions) == 0 || b.kind == paidElsewhere }

func actionsOf(breaks []Break) []int64 {
	var all []int64
	for _, b := range breaks {
		all = append(all, b.Actions...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// tell fills in the report.
func (r *run) tell(report *Report) {
	report.OK = true
	for i, name := range Names {
		v := Invariant{ID: i + 1, Name: name, Checked: r.checked[i], Broken: r.beyond[i]}
		for _, b := range r.suspect {
			if b.kind.Invariant != v.ID {
				continue
			}
			v.Broken++
			v.Breaks = append(v.Breaks, b)
		}
		report.OK = report.OK && v.Broken == 0
		report.Invariants = append(report.Invariants, v)
	}
	for node, err := range r.silent {
		report.Unknown = append(report.Unknown, fmt.Sprintf("node %s does not answer, so what it holds was not compared: %v", node, err))
	}
	if r.nodeless {
		report.Unknown = append(report.Unknown, "no node is configured, so nothing that has ended was compared with its own: are these the service's settings?")
	}
	slices.Sort(report.Unknown)
	report.OK = report.OK && len(report.Unknown) == 0 && r.reached.IsZero()
}

// snapshot runs do on the database as it is at one moment; no statement in it takes longer than timeout.
func (r *run) snapshot(ctx context.Context, timeout time.Duration, do func(q *db.Queries, tx pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, r.Pool, options, func(tx pgx.Tx) error {
		// The lock timeout: where a migration has locked a table, give up rather than wait in the queue for it. The
		// lock: partitions come and go whatever a snapshot says, so they are locked before the snapshot is taken, and
		// those that are there stay until its end. No payment waits for that. The page cost: a page of actions is a
		// contiguous piece of each index. With the default cost, PostgreSQL would rather scan tables of a hundred
		// thousand rows from end to end, again for each page.
		_, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d; SET LOCAL random_page_cost = 1.1; LOCK TABLE paid_action, action_history, posting IN ACCESS SHARE MODE",
			timeout.Milliseconds(), lockTimeout.Milliseconds()))
		if err != nil {
			return fmt.Errorf("bound the statements: %w", err)
		}
		q := db.New(tx)
		if r.archivedTo, err = q.ArchivedTo(ctx); err != nil {
			return fmt.Errorf("find out what is archived: %w", err)
		}
		return do(q, tx)
	})
}

const lockTimeout = 5 * time.Second

// everyAction looks at every action, in pages.
func (r *run) everyAction(ctx context.Context) error {
	if !r.Changed.IsZero() {
		return r.everyChanged(ctx)
	}
	for after := int64(0); ; {
		var ids []int64
		err := r.snapshot(ctx, statementTimeout, func(q *db.Queries, _ pgx.Tx) (err error) {
			ids, err = q.ActionsToCheck(ctx, db.ActionsToCheckParams{After: after, Page: stock})
			return err
		})
		if err != nil {
			return fmt.Errorf("read actions: %w", err)
		}
		if len(ids) == 0 {
			return nil
		}
		for part := range slices.Chunk(ids, page) {
			if err := r.actions(ctx, part); err != nil {
				return err
			}
		}
		after = ids[len(ids)-1]
	}
}

// everyChanged looks at what an earlier run has found, and then at what is open or has changed, in the order of the
// last change. So a run that is out of time knows where the next one must go on. It does not stop until it is more than
// overlap past its own beginning: otherwise the next run would get no further.
func (r *run) everyChanged(ctx context.Context) error {
	for part := range slices.Chunk(actionsOf(r.Earlier), page) {
		if err := r.actions(ctx, part); err != nil {
			return err
		}
	}
	var marks db.MarksRow
	err := r.snapshot(ctx, statementTimeout, func(q *db.Queries, _ pgx.Tx) (err error) {
		marks, err = q.Marks(ctx, r.Changed)
		return err
	})
	if err != nil {
		return fmt.Errorf("find out what has changed: %w", err)
	}
	if r.marks != nil {
		marks.History, marks.Posting = min(marks.History, r.marks.History), min(marks.Posting, r.marks.Posting)
	}
	last := db.ChangedActionsRow{At: r.Changed}
	for {
		var rows []db.ChangedActionsRow
		err := r.snapshot(ctx, statementTimeout, func(q *db.Queries, _ pgx.Tx) (err error) {
			rows, err = q.ChangedActions(ctx, db.ChangedActionsParams{Since: r.Changed, History: marks.History, Posting: marks.Posting,
				AfterAt: last.At, After: last.ID, Page: stock})
			return err
		})
		if err != nil {
			return fmt.Errorf("read actions: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		for part := range slices.Chunk(rows, r.page) {
			if r.over(2) && last.At.Add(-overlap).After(r.Changed) {
				r.reached = last.At
				return nil
			}
			ids := make([]int64, len(part))
			for i, row := range part {
				ids[i] = row.ID
			}
			slices.Sort(ids) // the order in which an error about this page names them
			if err := r.actions(ctx, ids); err != nil {
				return err
			}
			last = part[len(part)-1]
		}
	}
}

// actions checks a page of actions: in the database, and then at the nodes those that are not archived.
func (r *run) actions(ctx context.Context, ids []int64) error {
	kept, err := r.rows(ctx, ids)
	if err != nil {
		return err
	}
	r.archived += int64(len(ids) - len(kept))
	return r.atNodes(ctx, kept)
}

// rows checks a page of actions in the database. It returns those that are not archived.
func (r *run) rows(ctx context.Context, ids []int64) (kept []int64, err error) {
	err = r.snapshot(ctx, statementTimeout, func(q *db.Queries, _ pgx.Tx) error {
		kept = slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return id <= r.archivedTo })
		for _, c := range checks {
			if err := c(ctx, r, q, ids); err != nil {
				return err
			}
		}
		if len(kept) == 0 {
			return nil
		}
		if err := q.PlanAnew(ctx); err != nil {
			return err
		}
		for _, c := range checksByPast {
			if err := c(ctx, r, q, kept); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at the actions from %d to %d: %w", ids[0], ids[len(ids)-1], err)
	}
	return kept, nil
}

func (report *Report) losses(ctx context.Context, q *db.Queries) error {
	lost, err := q.Balances(ctx, []int64{int64(ledger.LossSats)})
	if err != nil {
		return fmt.Errorf("read what was lost: %w", err)
	}
	for _, row := range lost { // none, if the account is not there
		report.LostMsat = -row.Balance
	}
	rows, err := q.Losses(ctx, shown)
	if err != nil {
		return fmt.Errorf("read the losses: %w", err)
	}
	for _, row := range rows {
		report.Losses = append(report.Losses, Loss{Action: row.ActionID, Msat: row.Msat, Reason: row.Reason})
	}
	return nil
}
