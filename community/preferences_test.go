package community_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// dropAfter is what a user wants.
func dropAfter(w *enginetest.World, user int64, days *int) {
	w.Helper()
	err := community.SetPreferences(w.Ctx, db.New(w.Pool), user, community.Preferences{DropInvoicesAfterDays: days}, w.Clock.Now())
	if err != nil {
		w.Fatal(err)
	}
}

// dropAll is as many turns as find somebody.
func dropAll(w *enginetest.World) {
	w.Helper()
	for found := true; found; {
		err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) (err error) {
			found, err = community.DropInvoices(w.Ctx, db.New(tx), w.Clock.Now())
			return err
		})
		if err != nil {
			w.Fatal(err)
		}
	}
}

// donate pays a donation by invoice, and returns it once it is PAID.
func donate(w *enginetest.World, user int64) *paidaction.PaidAction {
	w.Helper()
	pa := w.Pay(user, community.KindDonate, community.DonateArgs{Sats: 5}, paidaction.Pessimistic)
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		w.Fatal(err)
	}
	for range 3 {
		w.Advance(pa.ID)
	}
	return w.WantState(pa.ID, paidaction.Paid)
}

func wantBolt11(w *enginetest.World, pa *paidaction.PaidAction, want bool) {
	w.Helper()
	now := w.Look(pa.ID)
	if got := now.Invoice.Bolt11 != ""; got != want {
		w.Errorf("the invoice of action %d is there: %v, want %v", pa.ID, got, want)
	}
	if now.Invoice.Hash != pa.Invoice.Hash || now.Invoice.Amount != pa.Invoice.Amount || now.Invoice.Received != pa.Invoice.Received {
		w.Errorf("more than its text was dropped: %+v", now.Invoice)
	}
}

func TestOldInvoicesAreDroppedForThoseWhoWantIt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	wants, wantsNot, never := w.User("wants", 0, 0), w.User("wants_not", 0, 0), w.User("never_asked", 0, 0)
	dropAfter(w, wants, new(2))
	dropAfter(w, wantsNot, new(2))
	dropAfter(w, wantsNot, nil)
	old := donate(w, wants)
	kept := []*paidaction.PaidAction{donate(w, wantsNot), donate(w, never)}
	failed := w.Pay(wants, community.KindDonate, community.DonateArgs{Sats: 6}, paidaction.Pessimistic)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(wants), failed.ID); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(36 * time.Hour)
	young := donate(w, wants)
	dropAll(w)
	wantBolt11(w, old, true) // not yet
	w.Clock.Advance(13 * time.Hour)
	dropAll(w)
	wantBolt11(w, old, false)
	wantBolt11(w, failed, false)
	wantBolt11(w, young, true)
	for _, pa := range kept {
		wantBolt11(w, pa, true)
	}
	dropAfter(w, never, new(1)) // what was before is dropped too
	dropAll(w)
	wantBolt11(w, kept[1], false)

	// Held against the nodes for as long as one likes, nothing is missing.
	report, err := reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: simnode.Nodes{w.Node}, Now: w.Clock.Now, Since: 1000 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if nodes := report.Invariants[8]; nodes.Broken != 0 || nodes.Checked < 4 {
		t.Errorf("%+v", nodes)
	}
	w.Node.Wipe() // that a failed action's invoice was issued is known still
	report, err = reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: simnode.Nodes{w.Node}, Now: w.Clock.Now, Since: 1000 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if nodes := report.Invariants[8]; nodes.Broken != nodes.Checked {
		t.Errorf("%+v", nodes)
	}
}

// What is open keeps its invoice however old it is, and so does what began after it, until it has ended.
func TestOpenActionsKeepTheirInvoices(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("user", 0, 0)
	dropAfter(w, user, new(1))
	open := w.Pay(user, community.KindDonate, community.DonateArgs{Sats: 7}, paidaction.Pessimistic)
	after := donate(w, user)
	w.Clock.Advance(72 * time.Hour) // the deadline's job has not run: the node or the service was away
	dropAll(w)
	wantBolt11(w, open, true)
	wantBolt11(w, after, true)
	w.Node.Tick()
	w.Drain()
	w.WantState(open.ID, paidaction.Failed)
	w.Clock.Advance(25 * time.Hour)
	dropAll(w)
	wantBolt11(w, open, false)
	wantBolt11(w, after, false)
}

// The same key gives the same action, without its invoice's text; a key with other arguments is refused as ever.
func TestDroppedInvoicesCanBeAskedForAgain(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("user", 0, 0)
	dropAfter(w, user, new(1))
	first, err := w.Try(user, community.KindDonate, community.DonateArgs{Sats: 8}, paidaction.Pessimistic, "key")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Node.PayBolt11(first.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	for range 3 {
		w.Advance(first.ID)
	}
	w.Clock.Advance(48 * time.Hour)
	dropAll(w)
	again, err := w.Try(user, community.KindDonate, community.DonateArgs{Sats: 8}, paidaction.Pessimistic, "key")
	if err != nil || again.ID != first.ID || again.State != paidaction.Paid || again.Invoice.Bolt11 != "" {
		t.Errorf("%+v, error %v", again, err)
	}
	_, err = w.Try(user, community.KindDonate, community.DonateArgs{Sats: 9}, paidaction.Pessimistic, "key")
	w.WantRefusal(err, paidaction.CodeIdempotencyConflict)
}

// A withdrawal's invoice is somebody else's: it is dropped from the payment and from the arguments. An address stays.
func TestInvoicesThatWereWithdrawnToAreDropped(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("user", 0, 1000*sat)
	dropAfter(w, user, new(1))
	carol := w.Network.AddReceiver("carol")
	bolt11 := carol.Issue(simnode.Ask{Amount: 50 * sat}).Bolt11
	pa, err := w.Try(user, community.KindWithdraw, community.WithdrawArgs{To: "lightning:" + strings.ToUpper(bolt11), MaxFeeSats: 5}, "", "key")
	if err != nil {
		t.Fatal(err)
	}
	hash := w.Count(`SELECT count(DISTINCT payment_hash) FROM relay_payment WHERE action_id = $1`, pa.ID)
	w.Clock.Advance(48 * time.Hour)
	dropAll(w) // it is under way, and needs its invoice
	if n := w.Count(`SELECT count(*) FROM relay_payment WHERE bolt11 <> '' AND action_id = $1`, pa.ID); n != 1 {
		t.Fatal("an invoice that is still to be paid was dropped")
	}
	w.Clock.Advance(-48 * time.Hour)
	w.Run(w.Relay)
	w.Await(pa.ID, paidaction.Paid)
	w.AwaitStage(pa.ID, "completed")
	w.Clock.Advance(72 * time.Hour)
	dropAll(w)
	if n := w.Count(`SELECT count(*) FROM relay_payment r JOIN paid_action a ON a.id = r.action_id
		WHERE a.id = $1 AND r.bolt11 = '' AND a.args->>'to' = '' AND r.amount_msat = 50000`, pa.ID); n != 1 || hash != 1 {
		t.Error("the invoice is there still, or more than it is gone")
	}
	again, err := w.Try(user, community.KindWithdraw, community.WithdrawArgs{To: "lightning:" + strings.ToUpper(bolt11), MaxFeeSats: 5}, "", "key")
	if err != nil || again.ID != pa.ID {
		t.Errorf("%+v, error %v", again, err)
	}
	// The hash is still paid for ever.
	if _, err := w.Try(user, community.KindWithdraw, community.WithdrawArgs{To: bolt11, MaxFeeSats: 5}, "", ""); err == nil {
		t.Error("the same invoice is paid twice")
	}
}

// Of payments that leave, a withdrawal at its end loses its invoice, and nothing else: what is under way may be sent
// again, the invoice inside a forward is its receiver's, and what others have paid is theirs.
func TestOnlyWithdrawalsAtTheirEndLoseTheirInvoice(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, user, other := w.User("author", 100*sat, 0), w.User("user", 0, 1000*sat), w.User("other", 0, 1000*sat)
	w.Wallets.Add(author)
	carol := w.Network.AddReceiver("carol")
	withdraw := func(user int64) int64 {
		bolt11 := carol.Issue(simnode.Ask{Amount: 50 * sat}).Bolt11
		return w.Pay(user, community.KindWithdraw, community.WithdrawArgs{To: bolt11, MaxFeeSats: 5}, "").ID
	}
	forward := w.Pay(user, community.KindZap, community.ZapArgs{Item: w.Post(author, "a post"), Sats: 10}, paidaction.P2P)
	payInvoice(w, forward)
	withdrawal := withdraw(user)
	withdraw(other)
	for stage, want := range map[string][]int64{"incoming": nil, "in_work": nil, "pending_confirmation": nil, "completed": {withdrawal}, "failed": {withdrawal}} {
		tag, err := w.Pool.Exec(w.Ctx, `UPDATE relay_payment SET bolt11 = 'lnbc', stage = $1::relay_stage, node = 'sim',
			preimage = CASE WHEN $1 IN ('pending_confirmation', 'completed') THEN sha256('') END,
			fee_msat = CASE WHEN $1 = 'completed' THEN 0 END, failure_code = CASE WHEN $1 = 'failed' THEN 'NO_ROUTE' END`, stage)
		if err != nil || tag.RowsAffected() != 3 {
			t.Fatalf("%s: %d payments, %v", stage, tag.RowsAffected(), err)
		}
		if _, err := db.New(w.Pool).DropPaidBolt11(w.Ctx, []int64{forward.ID, withdrawal}); err != nil {
			t.Fatal(err)
		}
		rows, err := w.Pool.Query(w.Ctx, `SELECT action_id FROM relay_payment WHERE bolt11 = ''`)
		if err != nil {
			t.Fatal(err)
		}
		if dropped, err := pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil || !slices.Equal(dropped, want) {
			t.Errorf("%s: the invoices of %d are dropped, want %d, %v", stage, dropped, want, err)
		}
	}
}

func TestPreferencesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("user", 0, 0)
	for _, days := range []int{0, -1, 3651, 1 << 40} {
		err := community.SetPreferences(w.Ctx, db.New(w.Pool), user, community.Preferences{DropInvoicesAfterDays: &days}, w.Clock.Now())
		w.WantRefusal(err, paidaction.CodeInvalidInput)
	}
	if n := w.Count(`SELECT count(*) FROM user_preference`); n != 0 {
		t.Errorf("%d preferences are stored", n)
	}
}

// Whoever wants it pays by invoices that do not say what for, whatever kind of invoice it is. Those of others do, and
// so does the invoice of the receiver's wallet.
func TestDescriptionsAreHiddenFromThePayersWallet(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, hiding, open := w.User("author", 100*sat, 0), w.User("hiding", 0, 0), w.User("open", 0, 0)
	wallet := w.Wallets.Add(author)
	post := w.Post(author, "a post")
	err := community.SetPreferences(w.Ctx, db.New(w.Pool), hiding, community.Preferences{HideInvoiceDescriptions: true}, w.Clock.Now())
	if err != nil {
		w.Fatal(err)
	}
	zap := community.ZapArgs{Item: post, Sats: 10}
	for _, m := range []paidaction.Method{paidaction.Optimistic, paidaction.Pessimistic, paidaction.P2P} {
		for payer, want := range map[int64]string{hiding: "", open: community.Zap{}.Describe(zap), 0: community.Zap{}.Describe(zap)} {
			if payer == 0 && m == paidaction.Optimistic {
				continue
			}
			shown, err := w.Node.DecodeInvoice(w.Ctx, w.Pay(payer, community.KindZap, zap, m).Invoice.Bolt11)
			if err != nil || shown.Description != want {
				t.Errorf("%s: the wallet of payer %d is shown %q, want %q (%v)", m, payer, shown.Description, want, err)
			}
		}
	}
	for _, issued := range wallet.Issued {
		inner, err := w.Node.DecodeInvoice(w.Ctx, issued.Bolt11)
		if err != nil || inner.Description != (community.Zap{}).Describe(zap) {
			t.Errorf("the receiver's invoice says %q (%v)", inner.Description, err)
		}
	}
}

// What somebody wants dropped is theirs: whoever comes after them keeps their invoices.
func TestNobodyElsesInvoicesAreDropped(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	first, second := w.User("first", 0, 0), w.User("second", 0, 0)
	dropAfter(w, first, new(1))
	wanted, kept := donate(w, first), donate(w, second)
	w.Clock.Advance(48 * time.Hour)
	dropAll(w)
	wantBolt11(w, wanted, false)
	wantBolt11(w, kept, true)
}
