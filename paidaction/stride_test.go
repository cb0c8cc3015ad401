package paidaction_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// news has these actions driven on by as many who heard of them. The first take up the places for groups; the others wait until all are there, and
// those that can be booked together are.
func news(w *enginetest.World, actions []int64) []error {
	w.Helper()
	return newsBehind(w, `LOCK TABLE zap_total IN SHARE MODE`, actions)
}

// newsBehind is news of which the first are held up by this lock.
func newsBehind(w *enginetest.World, lock string, actions []int64) []error {
	w.Helper()
	aside, err := pgx.ConnectConfig(w.Ctx, w.Pool.Config().ConnConfig) // the pool has as many connections as the rest needs
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = aside.Close(w.Ctx) }()
	gate, err := aside.Begin(w.Ctx)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := gate.Exec(w.Ctx, lock); err != nil {
		w.Fatal(err)
	}
	errs := make([]error, len(actions))
	var all sync.WaitGroup
	for i, id := range actions {
		all.Go(func() { _, errs[i] = w.Engine.Drive(w.Ctx, id) })
		if i < paidaction.GroupsAtOnce {
			w.AwaitBlocked(i + 1)
		}
	}
	for w.Engine.Waiting() < len(actions)-paidaction.GroupsAtOnce {
		runtime.Gosched()
	}
	if err := gate.Rollback(w.Ctx); err != nil {
		w.Fatal(err)
	}
	all.Wait()
	return errs
}

// paidZaps opens so many zaps of one item by invoice, each by another payer, and has them paid with so much.
func paidZaps(w *enginetest.World, item int64, method paidaction.Method, paid ...paidaction.Msat) (users, actions []int64) {
	w.Helper()
	for i, msat := range paid {
		user := w.User(fmt.Sprint("payer", i), 0, 0)
		pa := w.Pay(user, community.KindZap, community.ZapArgs{Item: item, Sats: 10}, method)
		if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{Msat: msat}); err != nil {
			w.Fatal(err)
		}
		users, actions = append(users, user), append(actions, pa.ID)
	}
	return users, actions
}

// Invoices that are paid at the same time are booked in one transaction: each once, with what arrived, whoever heard of it how often.
func TestInvoicesAreBookedTogether(t *testing.T) {
	t.Parallel()
	for _, method := range []paidaction.Method{paidaction.Optimistic, paidaction.Pessimistic} {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			author := w.User("author", 1000*sat, 0)
			item := w.Post(author, "popular")
			before := w.Balance(ledger.UserCredits(author))
			if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO webhook (url, events, secret, created_at) VALUES ('https://example.org', '{action.paid}', '', now())`); err != nil {
				t.Fatal(err)
			}
			paid := []paidaction.Msat{10 * sat, 10 * sat, 10 * sat, 13 * sat, 10 * sat, 10 * sat}
			users, actions := paidZaps(w, item, method, paid...)
			heard := actions
			if method == paidaction.Optimistic {
				heard = append(heard, actions[2], actions[4], actions[5]) // who hears of a held payment twice does not wait for its end
			}
			for i, err := range news(w, heard) {
				if err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
			for i, id := range actions {
				if pa := w.WantState(id, paidaction.Paid); pa.Invoice.Received != paid[i] {
					t.Errorf("%d has received %d msat, want %d", id, pa.Invoice.Received, paid[i])
				}
				if n := w.Count(`SELECT count(*) FROM action_history WHERE action_id = $1 AND to_state = 'PAID' AND fact = $2`, id, paidaction.InvoiceIsPaid); n != 1 {
					t.Errorf("%d became PAID %d times", id, n)
				}
			}
			if n := w.Count(`SELECT max(n) FROM (SELECT count(*) AS n FROM paid_action WHERE kind = 'ZAP' GROUP BY xmin::text) AS one`); n < 3 {
				t.Errorf("at most %d share a transaction", n)
			}
			if n := w.Count(`SELECT count(*) FROM paid_action WHERE flow = 'PESSIMISTIC' AND state = 'PAID' AND settle_permitted_at IS NULL`); n != 0 {
				t.Errorf("%d were settled without a permission", n)
			}
			if n := w.Count(`SELECT count(*) FROM paid_action WHERE flow = 'PESSIMISTIC' AND state = 'PAID' AND deadline_height IS NULL`); n != 0 {
				t.Errorf("of %d nobody knew their safety height", n)
			}
			w.Drain()
			w.WantBalance(ledger.UserCredits(users[3]), 3*sat)
			w.WantBalance(ledger.UserCredits(author), before+6*7*sat)
			if n := w.Count(`SELECT sum(msat) FROM item_delta WHERE item_id = $1`, item); n != 60*sat {
				t.Errorf("the item counts %d msat", n)
			}
			if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'ZAP'`); n != 6 {
				t.Errorf("the author was told of %d zaps, want 6", n)
			}
			if n := w.Count(`SELECT count(*) FROM webhook_message m JOIN action_history h ON h.id = m.step_id AND h.action_id = m.action_id WHERE h.to_state = 'PAID'`); n != 6 {
				t.Errorf("webhooks are told of %d paid actions, want 6", n)
			}
			w.WantConserved()
		})
	}
}

// What an earlier attempt has made is kept also where the payments for the next ones are held at the same time.
func TestWhatWasMadeBeforeIsKeptTogether(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	item := w.Post(w.User("author", 1000*sat, 0), "popular")
	var actions []int64
	for i := range 6 {
		user := w.User(fmt.Sprint("payer", i), 0, 0)
		c := enginetest.Caller(user)
		pa := w.Pay(user, community.KindZap, community.ZapArgs{Item: item, Sats: 10}, paidaction.Optimistic)
		if _, err := w.Engine.Cancel(w.Ctx, c, pa.ID); err != nil {
			t.Fatal(err)
		}
		again, err := w.Engine.Retry(w.Ctx, c, pa.ID, "", paidaction.Terms{Method: paidaction.Pessimistic}, nil)
		if err != nil {
			t.Fatal(err)
		}
		pay(w, again, simnode.Payment{})
		actions = append(actions, again.ID)
	}
	for i, err := range news(w, actions) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	for _, id := range actions {
		w.WantState(id, paidaction.Paid)
	}
	if n := w.Count(`SELECT count(*) FROM zap`); n != 6 {
		t.Errorf("%d zaps, want 6", n)
	}
	w.WantConserved()
}

// A fault of one undoes the transaction of all; each is then booked by itself, and only that one waits for somebody to look.
func TestFaultOfOneBookingTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 1000*sat, 0)
	item := w.Post(author, "popular")
	_, actions := paidZaps(w, item, paidaction.Optimistic, 10*sat, 10*sat, 10*sat, 10*sat, 10*sat)
	broken := actions[3]
	for _, sql := range []string{
		`CREATE FUNCTION breaks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$`,
		fmt.Sprintf(`CREATE TRIGGER breaks BEFORE INSERT ON vote_event FOR EACH ROW WHEN (NEW.action_id = %d) EXECUTE FUNCTION breaks()`, broken),
	} {
		if _, err := w.Pool.Exec(w.Ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	for i, err := range news(w, actions) {
		if actions[i] == broken {
			if err == nil || !strings.Contains(err.Error(), "broken") {
				t.Errorf("the broken one: %v", err)
			}
			w.WantState(broken, paidaction.Pending)
			continue
		}
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
		w.WantState(actions[i], paidaction.Paid)
	}
	w.WantConserved()
	if _, err := w.Pool.Exec(w.Ctx, `DROP TRIGGER breaks ON vote_event`); err != nil {
		t.Fatal(err)
	}
	w.Advance(broken)
	w.WantState(broken, paidaction.Paid)
	w.WantConserved()
}

// brokenTogether is broken, of which several take a step together.
type brokenTogether struct{ broken }

func (b brokenTogether) Spec() paidaction.Spec {
	s := b.broken.Spec()
	s.Together, s.Methods = true, append(s.Methods, paidaction.Optimistic)
	return s
}

func (b brokenTogether) CostTogether(_ context.Context, _ *db.Queries, members []*paidaction.Member[struct{}, struct{}]) error {
	for _, m := range members {
		m.Tx.Cost = *b.price
	}
	return nil
}

func (b brokenTogether) PayTogether(ctx context.Context, q *db.Queries, at time.Time, members []*paidaction.Member[struct{}, struct{}]) error {
	return b.OnPaidTogether(ctx, q, at, members)
}

func (brokenTogether) PerformTogether(context.Context, *db.Queries, time.Time, []*paidaction.Member[struct{}, struct{}]) error {
	return nil
}

func (b brokenTogether) OnPaidTogether(ctx context.Context, _ *db.Queries, _ time.Time, members []*paidaction.Member[struct{}, struct{}]) error {
	for _, m := range members {
		if err := b.OnPaid(ctx, m.Tx, struct{}{}, struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

func (brokenTogether) AfterPaidTogether(context.Context, *db.Queries, time.Time, []int64) error {
	return nil
}

// short are nodes that say of each invoice that a millisatoshi less has arrived.
type short struct{ paidaction.Nodes }

func (s short) Node(name string) (paidaction.Node, error) {
	node, err := s.Nodes.Node(name)
	return shortNode{node}, err
}

type shortNode struct{ paidaction.Node }

func (n shortNode) LookupInvoice(ctx context.Context, h paidaction.Hash) (paidaction.NodeInvoice, error) {
	inv, err := n.Node.LookupInvoice(ctx, h)
	inv.Received--
	return inv, err
}

// What one by itself is refused for, several together are too: a price that has moved, less money than the price, and more handed out than came.
func TestNothingIsLetPassTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method paidaction.Method
		off    paidaction.Msat
		then   func(w *enginetest.World, price *paidaction.Msat)
		end    paidaction.State
		err    string
	}{
		"a price that has moved":  {paidaction.Pessimistic, 0, func(_ *enginetest.World, price *paidaction.Msat) { *price += sat }, paidaction.Failed, ""},
		"a price that has fallen": {paidaction.Pessimistic, 0, func(_ *enginetest.World, price *paidaction.Msat) { *price -= sat }, paidaction.Failed, ""},
		"less than the price": {paidaction.Optimistic, 0, func(w *enginetest.World, _ *paidaction.Msat) {
			engine := *w.Engine
			engine.Nodes = short{w.Engine.Nodes}
			w.Engine = &engine
		}, paidaction.Pending, "received"},
		"more than was paid": {paidaction.Optimistic, 1, func(*enginetest.World, *paidaction.Msat) {}, paidaction.Pending, "handed out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			price := paidaction.Msat(5 * sat)
			perform := func(*paidaction.Tx) error { return nil }
			w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(brokenTogether{broken{perform: perform, price: &price, off: c.off}}))
			pa := w.Pay(w.User("payer", 0, 0), "BROKEN", struct{}{}, c.method)
			pay(w, pa, simnode.Payment{})
			c.then(w, &price)
			if _, err := w.Engine.Drive(w.Ctx, pa.ID); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v", err)
			}
			w.WantState(pa.ID, c.end)
			w.WantConserved()
		})
	}
}

// Who performs a held action settles at once, since the chain was looked at for the step; but not who stood still in between: the node may have fallen
// behind, and then the preimage could be given away for a payment that has run out.
func TestWhoStoodStillAsksForTheChainAgain(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	item := w.Post(w.User("author", 1000*sat, 0), "popular")
	_, actions := paidZaps(w, item, paidaction.Pessimistic, 10*sat)
	gate, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Exec(w.Ctx, `SELECT FROM paid_action WHERE id = $1 FOR UPDATE`, actions[0]); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := w.Engine.Drive(w.Ctx, actions[0])
		done <- err
	}()
	w.AwaitBlocked(1)
	w.Clock.Advance(time.Minute)
	w.Node.SetSynced(false)
	if err := gate.Rollback(w.Ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the node was behind the chain, and nobody asked")
	}
	pa := w.WantState(actions[0], paidaction.Held)
	if inv, err := w.Node.LookupInvoice(w.Ctx, pa.Invoice.Hash); err != nil || inv.State != paidaction.InvoiceAccepted {
		t.Errorf("the invoice is %s, %v", inv.State, err)
	}
	w.Node.SetSynced(true)
	if _, err := w.Engine.Drive(w.Ctx, actions[0]); err != nil {
		t.Error(err)
	}
	w.WantState(actions[0], paidaction.Paid)
	w.WantConserved()
}

// heldZaps opens so many wrapped zaps of a post of a receiver who lets payments wait, each by another payer, and has them paid. Each is larger than the one
// before by so many sats.
func heldZaps(w *enginetest.World, n, more int) (receiver *enginetest.Wallet, author int64, actions []int64, hashes []paidaction.Hash) {
	w.Helper()
	author = w.User("author", 1000*sat, 0)
	item := w.Post(author, "popular")
	receiver = w.Wallets.Add(author)
	receiver.Ask.Act = simnode.Holds
	for i := range n {
		pa := w.Pay(w.User(fmt.Sprint("holder", i), 0, 0), community.KindZap, community.ZapArgs{Item: item, Sats: int64(100 + i*more)}, paidaction.P2P)
		if err := w.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
			w.Fatal(err)
		}
		actions, hashes = append(actions, pa.ID), append(hashes, pa.Invoice.Hash)
	}
	return receiver, author, actions, hashes
}

// together is how many rows of a query were written by one transaction at most.
func together(w *enginetest.World, rows string) int64 {
	w.Helper()
	return w.Count(`SELECT max(n) FROM (SELECT count(*) AS n FROM ` + rows + ` GROUP BY xmin::text) AS one`)
}

// Payments that are held at the same time are claimed for their receiver together, and no more than one receiver may have under way: those that are too
// many go back to their payers, and to no others.
func TestForwardsAreClaimedTogether(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]paidaction.Settings{
		"so many payments": {MaxForwards: 6},
		"so much money":    {MaxForwards: 8, MaxForwarded: 7*(70+3)*sat - 1}, // each with its budget
		"just enough":      {MaxForwards: 8, MaxForwarded: 6 * (70 + 3) * sat},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, settings)
			_, author, actions, hashes := heldZaps(w, 8, 0)
			for i, err := range newsBehind(w, fmt.Sprintf(`SELECT FROM usr WHERE id = %d FOR NO KEY UPDATE`, author), actions) {
				if err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
			forwarding := 0
			for i, id := range actions {
				pa := w.Look(id)
				inv, ok := w.Node.Inspect(hashes[i])
				switch {
				case pa.State == paidaction.Forwarding && ok && inv.State == paidaction.InvoiceAccepted:
					forwarding++
				case pa.State != paidaction.Failed || pa.Failure.Code != paidaction.CodeReceiverBusy || inv.State != paidaction.InvoiceCanceled:
					t.Errorf("%d is %s (%v), its invoice %s", i, pa.State, pa.Failure, inv.State)
				}
			}
			if waiting := w.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'incoming'`); forwarding != 6 || waiting != 6 {
				t.Errorf("%d go on, %d payments wait to be sent, want 6", forwarding, waiting)
			}
			if n := together(w, `relay_payment`); n < 3 {
				t.Errorf("at most %d share a transaction", n)
			}
			if n := w.Count(`SELECT count(*) FROM (SELECT action FROM test_job WHERE at <= $1 GROUP BY action) AS owed JOIN relay_payment ON action_id = action`, w.Clock.Now().Add(2*time.Second)); n != 6 {
				t.Errorf("for %d of them a job stands by", n)
			}
			w.WantConserved()
		})
	}
}

// Receivers who take their payments at the same time: the preimages are stored together, or the payments booked together, each once and to the millisatoshi.
func TestForwardsEndTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step string // what those who send do with the preimage
		lock string
		rows string
	}{
		"the preimages": {"", `SELECT FROM relay_payment FOR UPDATE`, `relay_attempt WHERE outcome = 'PAID'`},
		"the books":     {"FORWARDED", `LOCK TABLE zap_total IN SHARE MODE`, `relay_payment WHERE stage = 'completed'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{MaxForwards: 10})
			receiver, _, actions, hashes := heldZaps(w, 6, 10)
			for _, id := range actions {
				if _, err := w.Engine.Drive(w.Ctx, id); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(w.Ctx)
			var all sync.WaitGroup
			defer all.Wait()
			defer stop()
			var one sync.Mutex
			all.Go(func() {
				_ = w.Relay.Run(ctx, func(ctx context.Context, id int64) (_ paidaction.Progress, err error) {
					one.Lock()
					defer one.Unlock()
					if c.step != "" && w.Look(id).State == paidaction.Forwarding {
						_, err = w.Engine.Advance(ctx, id)
					}
					return paidaction.Waiting, err
				})
			})
			for _, hash := range hashes {
				for receiver.Receiver.Receipt(hash).Held == 0 {
					runtime.Gosched()
				}
				if err := receiver.Receiver.Settle(hash); err != nil {
					t.Fatal(err)
				}
			}
			if c.step != "" {
				for _, id := range actions {
					w.Await(id, paidaction.State(c.step))
				}
			}
			for i, err := range newsBehind(w, c.lock, actions) {
				if err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
			for i, id := range actions {
				w.WantState(id, paidaction.Paid)
				if got := receiver.Receiver.Receipt(hashes[i]); got.Received != paidaction.Msat(70+7*i)*sat || got.Payments != 1 {
					t.Errorf("%d: the receiver got %+v", i, got)
				}
				if n := w.Count(`SELECT count(*) FROM action_history WHERE action_id = $1 AND to_state IN ('FORWARDED', 'PAID')`, id); n != 2 {
					t.Errorf("%d took %d steps to its end, want 2", i, n)
				}
			}
			if n := w.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'completed'`); n != 6 {
				t.Errorf("%d payments are booked", n)
			}
			if n := w.Count(`SELECT count(*) FROM posting WHERE reason IN ('came back', 'paid above the amount')`); n != 0 {
				t.Errorf("%d are booked at what another one has paid", n)
			}
			if n := together(w, c.rows); n < 3 {
				t.Errorf("at most %d share a transaction", n)
			}
			w.Drain()
			w.WantBalance(ledger.RoutingSats, 0)
			w.WantConserved()
		})
	}
}

// Whose step another one has made impossible, here the payer who cancels, settles nothing: what is not performed is not paid for (spec 05.1, 05.2).
func TestWhoComesTooLateSettlesNothing(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	payer := w.User("payer", 0, 0)
	item := w.Post(w.User("author", 1000*sat, 0), "popular")
	pa := w.Pay(payer, community.KindZap, community.ZapArgs{Item: item, Sats: 10}, paidaction.Pessimistic)
	pay(w, pa, simnode.Payment{})
	gate, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gate.Rollback(context.Background()) }()
	if _, err := gate.Exec(w.Ctx, `SELECT FROM paid_action WHERE id = $1 FOR UPDATE`, pa.ID); err != nil {
		t.Fatal(err)
	}
	canceled, driven := make(chan error, 1), make(chan error, 1)
	go func() { _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(payer), pa.ID); canceled <- err }()
	w.AwaitBlocked(1)
	go func() { _, err := w.Engine.Drive(w.Ctx, pa.ID); driven <- err }() // it has seen the payment held
	w.AwaitBlocked(2)
	if err := gate.Rollback(w.Ctx); err != nil {
		t.Fatal(err)
	}
	for _, ended := range []<-chan error{canceled, driven} {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	w.Drain()
	w.WantState(pa.ID, paidaction.Failed)
	if n := w.Node.Count(simnode.MethodSettle, pa.Invoice.Hash); n != 0 {
		t.Errorf("%d settle calls for what was cancelled", n)
	}
	w.WantConserved()
}
