package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/benchdb"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Recovery is how long a starting service takes until it hears of every open hold invoice. Each invoice needs its own
// stream at the node.
type Recovery struct {
	Machine machine     `json:"-"`
	Rounds  int         `json:"rounds"`
	Rows    []Recovered `json:"rows"`
	Noise   noise       `json:"noise"`
	// Worst is by how much the pages read for each open invoice grow with a history.
	Worst float64 `json:"worst"`
}

// Recovered is the outcome for one number of open invoices, with finished actions behind them.
type Recovered struct {
	Node    string  `json:"node"`
	Actions int64   `json:"actions"`
	Open    int     `json:"open"`
	Seconds figure  `json:"seconds"` // for each round, from the start of the process until it hears of the last invoice
	Pages   float64 `json:"pages_per_invoice"`
	MB      float64 `json:"service_mb"` // peak resident memory of the service
}

const (
	// recoveryBound is how long it may take with recoveryOpen invoices.
	recoveryBound = 5 * time.Second
	recoveryOpen  = 10_000
	// proven is how many of the invoices are paid afterwards; the service must hear of each payment.
	proven = 20
)

// The nodes that issue the invoices: a fake one, which is as fast as asked, and a real one.
const (
	fakeNode = "fake"
	lndNode  = "LND"
)

// ErrSlow is wrapped in the error if the service does not hear of all open invoices in time.
var ErrSlow = errors.New("recovery takes too long")

// Restarts says with how many invoices and actions the service is started.
type Restarts struct {
	Actions int64 // finished, behind the open ones of a fake node
	Open    []int // numbers of open hold invoices of the fake node, ascending; each with those actions behind them, and with none
	Most    int   // one more number with none behind, if it exceeds those of Open
	LND     int   // the number for a real node, with none behind; 0: no real node
}

// recovering is the measurement with one history and one node.
type recovering struct {
	Options
	*watch
	of         string // the node that issues the invoices
	actions    int64
	sizes      []int // numbers of open invoices, ascending
	database   *database
	connection *pgx.Conn
	service    *service
	node       issuer

	before int64 // the last finished action
	open   []opened
}

// Recover starts the service with more and more open hold invoices. It returns a report also with ErrSlow, ErrGrows and
// ErrNoisy.
func Recover(ctx context.Context, o Options, before Restarts) (*Recovery, error) {
	o = o.defaults()
	recovery, w := &Recovery{Rounds: o.Rounds}, &watch{}
	without := slices.Clone(before.Open)
	if before.Most > slices.Max(without) {
		without = append(without, before.Most)
	}
	work := []*recovering{{of: fakeNode, sizes: without}, {of: fakeNode, actions: before.Actions, sizes: before.Open}}
	if before.LND > 0 {
		work = append(work, &recovering{of: lndNode, sizes: []int{before.LND}})
	}
	for _, r := range work {
		r.Options, r.watch = o, w
		if err := r.run(ctx, recovery); err != nil {
			return nil, fmt.Errorf("recovery after %d actions, with the node %s: %w", r.actions, r.of, err)
		}
	}
	recovery.Noise = noiseOf(w.rounds, nil)
	return recovery, recovery.judge(o.Noisy)
}

// judge compares the figures with their bounds.
func (r *Recovery) judge(anyNoise bool) (err error) {
	type invoices struct {
		node string
		open int
	}
	without := map[invoices]float64{}
	for _, row := range r.Rows {
		if row.Actions == 0 {
			without[invoices{row.Node, row.Open}] = row.Pages
		}
		if row.Open <= recoveryOpen && row.Seconds.median() > recoveryBound.Seconds() {
			err = errors.Join(err, fmt.Errorf("%w: %.1f s for %d open invoices of the node %s", ErrSlow, row.Seconds.median(), row.Open, row.Node))
		}
	}
	for _, row := range r.Rows {
		// Less than a page for each invoice is only a handful in all, and depends on the plan, which a few hundred rows
		// may change.
		r.Worst = max(r.Worst, max(row.Pages, 1)/max(without[invoices{row.Node, row.Open}], 1)-1)
	}
	if r.Worst > growthBound {
		err = errors.Join(err, fmt.Errorf("%w: reading an open invoice by %.0f %%", ErrGrows, 100*r.Worst))
	}
	if !r.Noise.within(quiet) && !anyNoise {
		err = errors.Join(err, noisy(r.Noise))
	}
	return err
}

// run measures with one history, on a separate server, and adds the rows.
func (r *recovering) run(ctx context.Context, recovery *Recovery) (err error) {
	scratch, err := child.NewScratch("holdfast-recovery")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	alive, kill := context.WithCancel(ctx)
	defer kill()
	if r.of == lndNode {
		r.node, err = startLND(ctx, scratch.Dir, r.Options)
	} else {
		r.node, err = startFake(alive, r.Options)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			kill() // a fake node may be waiting for subscriptions
		}
		err = errors.Join(err, r.node.stop())
	}()
	if r.database, err = startDatabase(ctx, scratch.Dir, r.Options, map[string]string{"shared_preload_libraries": "pg_stat_statements"}); err != nil {
		return err
	}
	defer r.database.Stop()
	if recovery.Machine, err = r.database.machine(ctx); err != nil {
		return err
	}
	if r.connection, err = pgx.Connect(ctx, r.database.DSN(holdfastDB)); err != nil {
		return err
	}
	defer r.connection.Close(context.WithoutCancel(ctx))
	if r.actions > 0 {
		if err := r.database.history(ctx, r.actions); err != nil {
			return err
		}
	}
	if _, err := r.connection.Exec(ctx, "CREATE EXTENSION pg_stat_statements; CHECKPOINT"); err != nil {
		return err
	}
	b, err := benchdb.New(r.connection).Books(ctx)
	if err != nil {
		return err
	}
	r.before = b.LastAction
	settings, err := r.node.settings(scratch.Dir)
	if err != nil {
		return err
	}
	// Without reconciliation: it would check everything that is new to it meanwhile. A service that restarts has done
	// that before.
	r.service, err = newService(scratch.Dir, r.Holdfast, r.database.DSN(holdfastDB), append(settings, "HOLDFAST_RECONCILE_EVERY=0s")...)
	if err != nil {
		return err
	}
	defer r.service.stop()
	for _, n := range r.sizes {
		row, err := r.measure(ctx, n)
		if err != nil {
			return fmt.Errorf("%d open invoices: %w", n, err)
		}
		r.say("  %10d actions, %7d open invoices of the node %s: heard of after %s s; %.2f pages for each; the service had %.0f MB", row.Actions, n, row.Node,
			row.Seconds.text("%.2f"), row.Pages, row.MB)
		recovery.Rows = append(recovery.Rows, row)
	}
	return nil
}

// measure opens invoices until there are n, and starts the service with them in each round. Then some are paid, and
// everything is reconciled.
func (r *recovering) measure(ctx context.Context, n int) (row Recovered, err error) {
	if err := r.fill(ctx, n-len(r.open)); err != nil {
		return row, fmt.Errorf("open them: %w", err)
	}
	row = Recovered{Node: r.of, Actions: r.actions, Open: n}
	for range r.Rounds {
		r.service.stop()
		took, err := quietly(r.watch, r.Options, func() (time.Duration, error) { return r.restart(ctx, n) })
		if err != nil {
			return row, err
		}
		row.Seconds = append(row.Seconds, took.Seconds())
		mb, err := r.service.mostMB()
		if err != nil {
			return row, err
		}
		row.MB = max(row.MB, mb)
		if err := r.connection.QueryRow(ctx, script("growth/holds.sql")).Scan(&row.Pages); err != nil {
			return row, err
		}
		if row.Pages == 0 {
			return row, errors.New("PostgreSQL does not know of their being read")
		}
	}
	if err := r.prove(ctx); err != nil {
		return row, err
	}
	r.service.stop()
	return row, r.service.reconcile(ctx)
}

// restart starts the service, and returns how long it takes until it hears of n open invoices.
func (r *recovering) restart(ctx context.Context, n int) (time.Duration, error) {
	if _, err := r.connection.Exec(ctx, "SELECT pg_stat_statements_reset()"); err != nil {
		return 0, err
	}
	watching, end := context.WithCancel(ctx)
	defer end()
	heard, err := r.node.watch(watching, r.service, n)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := r.service.start(ctx); err != nil {
		return 0, err
	}
	last, err := heard()
	return last.Sub(begun), err
}

// prove has some of the invoices paid, and waits until the service has taken the money.
func (r *recovering) prove(ctx context.Context) error {
	q := benchdb.New(r.connection)
	before, err := q.ZapsSince(ctx, r.before)
	if err != nil {
		return err
	}
	paid := r.open[:min(proven, len(r.open)/2)]
	if err := r.node.pay(ctx, paid...); err != nil {
		return err
	}
	r.open = r.open[len(paid):]
	want := before.Paid + int64(len(paid))
	ctx, cancel := context.WithTimeoutCause(ctx, settlePatience, errors.New("what was paid is not taken"))
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		now, err := q.ZapsSince(ctx, r.before)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case now.Paid > want || now.Others < int64(len(r.open)):
			return fmt.Errorf("%d invoices were paid, and %d actions are; %d are open, and not %d", want, now.Paid, now.Others, len(r.open))
		case now.Paid == want && now.Told == want:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}

// openFor is how long the invoices can be paid: longer than the whole measurement.
const openFor = 6 * time.Hour

// fill makes n invoices at the node, with their actions.
func (r *recovering) fill(ctx context.Context, n int) error {
	until := time.Now().Add(openFor).UTC()
	requests, rows := make([]paidaction.InvoiceRequest, n), make([][]any, n)
	for i := range n {
		var preimage paidaction.Preimage
		_, _ = rand.Read(preimage[:]) // it never fails
		item, hash := 1+i%r.database.items, preimage.Hash()
		requests[i] = paidaction.InvoiceRequest{Hold: true, Hash: hash, Amount: sats * 1000, Memo: fmt.Sprintf("zap %d sats to #%d", sats, item),
			Expiry: openFor, CLTVDelta: 80}
		payer := 1 + (item+1)%r.database.users // the user after the author
		rows[i] = []any{item, payer, hash[:], preimage[:], until}
	}
	bolt11s, err := r.node.open(ctx, requests)
	if err != nil {
		return err
	}
	for i, bolt11 := range bolt11s {
		rows[i] = append(rows[i], bolt11)
		r.open = append(r.open, opened{requests[i].Hash, bolt11})
	}
	return r.database.open(ctx, rows)
}

// open makes open actions. Each row has the item, the payer, the payment hash, the preimage, the expiry, and the
// bolt11.
func (d *database) open(ctx context.Context, rows [][]any) error {
	connection, err := pgx.Connect(ctx, d.DSN(holdfastDB))
	if err != nil {
		return err
	}
	defer connection.Close(context.WithoutCancel(ctx))
	err = pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, script("growth/opened.sql")); err != nil {
			return err
		}
		columns := []string{"item", "payer", "payment_hash", "preimage", "until", "bolt11"}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"opened"}, columns, pgx.CopyFromRows(rows)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, script("growth/open.sql"))
		return err
	})
	if err == nil {
		_, err = connection.Exec(ctx, "VACUUM ANALYZE paid_action, action_history, invoice")
	}
	return err
}

// Table is for people.
func (r *Recovery) Table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "node\tfinished actions\topen hold invoices\theard of after, s\tpages for each\tmemory, MB\t")
	r.each(w, "%s\t%d\t%d\t%s\t%.2f\t%.0f\t\n")
	_ = w.Flush() // a builder takes everything
	return b.String()
}

func (r *Recovery) each(w io.Writer, format string) {
	for _, row := range r.Rows {
		fmt.Fprintf(w, format, row.Node, row.Actions, row.Open, row.Seconds.text("%.2f"), row.Pages, row.MB)
	}
}

// Write puts the figures into a page, between its markers.
func (r *Recovery) Write(page string) error { return recoveryMarks.write(page, r.markdown(time.Now())) }

func (r *Recovery) markdown(now time.Time) string {
	var b strings.Builder
	b.WriteString(r.Machine.markdown(now, r.Noise))
	fmt.Fprintf(&b, "Medians of %d rounds, with the lowest and the highest.\n\n", r.Rounds)
	b.WriteString("| node | finished actions | open hold invoices | all are heard of after, s | pages read for each | memory of the service, MB |\n")
	b.WriteString("|---|---|---|---|---|---|\n")
	r.each(&b, "| %s | %d | %d | %s | %.2f | %.0f |\n")
	return b.String()
}
