package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// liars are nodes that do not tell the truth.
type liars struct {
	paidaction.Nodes
	invoice func(*paidaction.NodeInvoice)
	payment func(*paidaction.PaymentUpdate) error
}

func (l liars) Node(name string) (paidaction.Node, error) {
	node, err := l.Nodes.Node(name)
	if err != nil {
		return nil, err
	}
	return liar{node.(paidaction.SendingNode), l}, nil
}

type liar struct {
	paidaction.SendingNode
	lies liars
}

func (l liar) LookupInvoice(ctx context.Context, h paidaction.Hash) (paidaction.NodeInvoice, error) {
	inv, err := l.SendingNode.LookupInvoice(ctx, h)
	if err == nil && l.lies.invoice != nil {
		l.lies.invoice(&inv)
	}
	return inv, err
}

func (l liar) TrackPayment(ctx context.Context, h paidaction.Hash, on func(paidaction.PaymentUpdate) error) error {
	return l.SendingNode.TrackPayment(ctx, h, func(u paidaction.PaymentUpdate) error {
		if l.lies.payment != nil {
			if err := l.lies.payment(&u); err != nil {
				return err
			}
		}
		return on(u)
	})
}

// saying reports every invoice that is in one state as being in another.
func saying(of, state paidaction.InvoiceState) func(*paidaction.NodeInvoice) {
	return func(inv *paidaction.NodeInvoice) {
		if inv.State == of {
			inv.State = state
		}
	}
}

func paying(of, state paidaction.PaymentState) func(*paidaction.PaymentUpdate) error {
	return func(u *paidaction.PaymentUpdate) error {
		if u.State == of {
			u.State = state
		}
		return nil
	}
}

// breaking is how one kind of break is made. What else it necessarily breaks is in also.
type breaking struct {
	sql  string // run with every guard of the database off; {opt} and others stand for an action of that kind
	do   func(w *enginetest.World)
	lies liars
	also []int // invariants
	off  bool  // the guards stay off
}

var someAction = strings.NewReplacer(
	"{opt}", `(SELECT max(id) FROM paid_action WHERE method = 'OPTIMISTIC' AND state = 'PAID')`,
	"{held}", `(SELECT max(id) FROM paid_action WHERE method = 'PESSIMISTIC' AND state = 'PAID')`,
	"{retried}", `(SELECT max(id) FROM paid_action WHERE method = 'PESSIMISTIC' AND state = 'RETRYING')`,
	"{credits}", `(SELECT max(id) FROM paid_action WHERE method = 'FEE_CREDIT' AND kind = 'ZAP' AND state = 'PAID')`,
	"{wrapped}", `(SELECT max(id) FROM paid_action WHERE flow = 'WRAPPED' AND state = 'PAID')`,
	"{withdrawn}", `(SELECT max(id) FROM paid_action WHERE flow = 'OUTGOING' AND state = 'PAID')`,
	"{refunded}", `(SELECT max(id) FROM paid_action WHERE flow = 'OUTGOING' AND state = 'FAILED')`,
	// A transfer that is in the postings and in the balances.
	"{transfer}", `WITH p AS (INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) `,
	"{booked}", ` RETURNING *), a AS (UPDATE account SET balance = balance - (SELECT sum(msat) FROM p WHERE from_account = account.id) WHERE id IN (SELECT from_account FROM p))
		INSERT INTO balance_delta (account_id, msat) SELECT to_account, msat FROM p`,
)

const moveToPay = `UPDATE paid_action SET state = %s, failure_code = 'X', deadline = now() WHERE id = %s`

// open leaves a zap that waits for its payer.
func open(w *enginetest.World) {
	w.Helper()
	openZap(w)
}

func openZap(w *enginetest.World) *paidaction.PaidAction {
	w.Helper()
	return w.Pay(w.User("more", 0, 0), community.KindZap, community.ZapArgs{Item: w.Count(`SELECT min(id) FROM item`), Sats: 10}, paidaction.Optimistic)
}

// redeemed has two newcomers redeem an invite.
func redeemed(w *enginetest.World) {
	w.Helper()
	inviter := w.User("inviter", 100*sat, 0)
	invite, err := community.CreateInvite(w.Ctx, db.New(w.Pool), inviter, 5, 3, w.Clock.Now(), w.Engine.Random)
	if err != nil {
		w.Fatal(err)
	}
	for _, name := range []string{"newcomer", "another"} {
		w.Pay(inviter, community.KindInviteGift, community.InviteGiftArgs{Code: invite.Code, User: w.User(name, 0, 0)}, "")
	}
	w.Drain()
}

// paidBounty has somebody pay the bounty they promised, by two zaps of an answer.
func paidBounty(w *enginetest.World) {
	w.Helper()
	owner, bounty := w.User("owner", 1000*sat, 0), int64(20)
	asked := w.Pay(owner, community.KindItemCreate, community.ItemCreateArgs{Title: "who knows?", Bounty: &bounty}, "")
	answer := w.Pay(w.User("hunter", 100*sat, 0), community.KindItemCreate, community.ItemCreateArgs{Body: "I do", Parent: w.Item(asked)}, "")
	for _, sats := range []int64{15, 5} {
		w.Pay(owner, community.KindZap, community.ZapArgs{Item: w.Item(answer), Sats: sats}, paidaction.FeeCredit)
	}
	w.Drain()
}

// message is one to a webhook that had its job a while ago, and has none now.
const message = `INSERT INTO webhook (url, events, secret, created_at) VALUES ('https://example.com', '{}', 'x', '2026-01-01');
	INSERT INTO webhook_message (webhook_id, type, created_at, queued_at) SELECT max(id), 'test', '2026-01-01', '2026-01-01' FROM webhook`

var breakings = map[string]breaking{
	"1 balance":    {sql: `UPDATE account SET balance = balance + 1 WHERE id = 17`},
	"1 total":      {sql: `UPDATE account SET balance = balance + 1 WHERE id = 17`},
	"1 below-zero": {sql: `ALTER TABLE account DROP CONSTRAINT user_balance_not_negative; {transfer} VALUES (NULL, 17, 3, 1000000000, 'x', '2026-01-01') {booked}`},
	"1 nobody":     {sql: `{transfer} VALUES (NULL, 17, 160001, 5, 'x', '2026-01-01') {booked}`},
	"1 backing":    {sql: `{transfer} VALUES (NULL, 1, 17, 5, 'x', '2026-01-01') {booked}`},
	"1 clearing":   {sql: `{transfer} VALUES (NULL, 17, 5, 5, 'x', '2026-01-01') {booked}`},
	"1 reward":     {sql: `UPDATE reward SET credits_msat = credits_msat + 1 WHERE rank = 1`},
	"1 reward-day": {sql: `ALTER TABLE reward_day DROP CONSTRAINT all_or_nothing; UPDATE reward_day SET pool_credits_msat = paid_credits_msat - 1`},
	"1 account":    {sql: `DELETE FROM account WHERE id = 8`},
	"1 unused":     {sql: `{transfer} VALUES (NULL, 17, 9, 5, 'x', '2026-01-01') {booked}`},
	"1 routing":    {sql: `{transfer} VALUES (NULL, 6, 32, 5, 'x', '2026-01-01') {booked}`},
	"1 range":      {sql: `UPDATE action_range SET archived_at = now(), steps = 0, postings = 0 WHERE first_action = 1`},
	"1 rest": {sql: `DO $$ DECLARE first_one bigint; BEGIN
		FOR first_one IN SELECT first_action FROM action_range LOOP EXECUTE format('ALTER TABLE posting DETACH PARTITION %I', 'posting_' || first_one); END LOOP; END $$;
		INSERT INTO posting OVERRIDING SYSTEM VALUE SELECT * FROM posting_1`},
	"1 guard": {off: true, sql: `ALTER TABLE posting DISABLE TRIGGER posting_append_only`, also: []int{6}},

	"2 no-source":       {sql: `UPDATE posting SET action_id = NULL WHERE action_id = {opt}`, also: []int{9}},
	"2 several-sources": {sql: `{transfer} VALUES ({credits}, 16, 4, 5, 'x', '2026-01-01') {booked}`},
	"2 wrong-amount":    {sql: `{transfer} VALUES ({credits}, 33, 3, 5, 'x', '2026-01-01') {booked}`},
	"2 charged":         {sql: `{transfer} VALUES ({retried}, 33, 3, 5, 'x', '2026-01-01') {booked}`},
	"2 other-source":    {sql: `UPDATE paid_action SET payer_id = (SELECT min(id) FROM usr) WHERE id = {credits}`, also: []int{3, 6}},
	"2 other-receiver": {sql: `UPDATE posting SET to_account = 16 WHERE action_id = {refunded} AND from_account = 6;
		UPDATE account SET balance = balance + CASE id WHEN 16 THEN 25000 ELSE -25000 END WHERE id IN (16, 32)`},
	"2 ended":        {sql: `INSERT INTO action_history (action_id, from_state, to_state, fact, at) VALUES ({opt}, 'PENDING', 'PAID', 'INVOICE_SETTLED', now())`, also: []int{6}},
	"2 not-refunded": {sql: `DELETE FROM posting WHERE action_id = {refunded} AND from_account = 6`, also: []int{1}},

	"3 counts":         {sql: `UPDATE zap SET state = 'PAID' WHERE state = 'FAILED'`},
	"3 does-not-count": {sql: `UPDATE item SET state = 'PENDING'`},
	"3 not-undone":     {sql: `UPDATE zap SET state = 'PENDING' WHERE state = 'FAILED'`},
	"3 undone":         {do: open, sql: `UPDATE zap SET state = 'FAILED' WHERE state = 'PENDING'`, also: []int{7}},
	"3 missing":        {sql: `DELETE FROM zap WHERE action_id = {opt}`},
	"3 amount":         {sql: `UPDATE invoice SET amount_msat = amount_msat + 1 WHERE action_id = {opt}`},
	"3 twice": {sql: `INSERT INTO item (kind, author_id, action_id, state, ancestors, title, body, created_at)
		SELECT kind, author_id, action_id, state, ancestors, title, body, created_at FROM item LIMIT 1`},
	"3 author":     {sql: `UPDATE item SET author_id = (SELECT max(id) FROM usr)`},
	"3 other-item": {sql: `UPDATE paid_action SET result = '{"item": 99}' WHERE id = (SELECT min(action_id) FROM item)`},
	"3 option": {do: func(w *enginetest.World) {
		poll := w.Pay(w.User("asker", 100*sat, 0), community.KindItemCreate, community.ItemCreateArgs{Title: "which?", PollArgs: &community.PollArgs{Options: []string{"this", "that"}, Price: 10}}, "")
		option := w.Count(`SELECT min(id) FROM poll_option WHERE item_id = $1`, w.Item(poll))
		w.Pay(w.User("voter", 100*sat, 0), community.KindPollVote, community.PollVoteArgs{Option: option}, "")
		w.Drain()
	}, sql: `UPDATE poll_vote SET option_id = option_id + 1`},
	"3 vote":    {sql: `UPDATE vote_event SET author_id = author_id + 1 WHERE action_id = {opt}`},
	"3 uses":    {do: redeemed, sql: `UPDATE invite SET used = used - 1`},
	"3 bounty":  {do: paidBounty, sql: `DELETE FROM bounty_payment`},
	"3 counter": {sql: `UPDATE item_count SET msat = msat + 1`},
	"3 listing": {sql: `UPDATE item_count SET listed = NOT listed`},
	"3 territory": {sql: `INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at, billing, period_start, period_day, paid_until, bill_at)
		SELECT name, 1, 1, 1, '2026-01-01', 'MONTHLY', '2026-01-01', 1, '2026-02-01', bill_at::timestamptz FROM (VALUES ('fine', '2026-02-01'), ('free', '2036-02-01')) AS t (name, bill_at)`},
	"3 file": {sql: `INSERT INTO upload (id, token, client_hash, bytes, content_type, fee_msat, created_at, unclaimed_at)
		VALUES (1, repeat('x', 22), sha256('x'), 1, 'image/png', 1, now(), now())`},
	"3 guard": {sql: `DROP INDEX poll_vote_once`},

	"4 two-invoices": {sql: `ALTER TABLE invoice DROP CONSTRAINT invoice_payment_hash_key; UPDATE invoice SET payment_hash = (SELECT payment_hash FROM invoice LIMIT 1)`, also: []int{9}},
	"4 two-payments": {sql: `DROP INDEX relay_payment_hash; UPDATE relay_payment SET payment_hash = (SELECT payment_hash FROM relay_payment WHERE action_id = {withdrawn})
		WHERE action_id = {wrapped}`, also: []int{5, 9}},
	"4 two-claims": {sql: `INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until, outcome, ended_at)
		SELECT id, 'elsewhere', 'x', 1, now(), now(), 'PAID', now() FROM relay_payment WHERE action_id = {withdrawn}`, also: []int{9}},
	"4 two-nodes": {do: func(w *enginetest.World) {
		bolt11 := w.Network.AddReceiver("dave").Issue(simnode.Ask{Amount: 20 * sat}).Bolt11
		pa := w.Pay(w.User("more", 0, 100*sat), community.KindWithdraw, community.WithdrawArgs{To: bolt11, MaxFeeSats: 5}, "")
		stop := w.Run(w.Relay)
		w.Await(pa.ID, paidaction.Paid)
		stop()
		for _, n := range w.Nodes {
			if _, paid := n.Sent(paidaction.Hash(w.AwaitStage(pa.ID, "completed").PaymentHash)); !paid {
				pay(w, n, bolt11)
			}
		}
	}, also: []int{9}},
	"4 own-invoice": {sql: `UPDATE relay_payment SET payment_hash = (SELECT payment_hash FROM invoice WHERE action_id = {opt}) WHERE action_id = {withdrawn}`, also: []int{5, 9}},
	"4 not-noted":   {sql: `DELETE FROM foreign_hash`},
	"4 guard":       {sql: `DROP INDEX relay_payment_hash`},

	"5 unsaid":      {sql: fmt.Sprintf(moveToPay, `'FORWARDING'`, `{wrapped}`), also: []int{2, 3, 6, 7, 9}},
	"5 given-up":    {sql: `UPDATE relay_payment SET stage = 'failed', preimage = NULL, fee_msat = NULL, failure_code = 'X' WHERE action_id = {withdrawn}`},
	"5 live":        {sql: `UPDATE relay_payment SET stage = 'incoming' WHERE action_id = {refunded}`},
	"5 not-settled": {sql: fmt.Sprintf(moveToPay, `'FORWARDED'`, `{wrapped}`) + `; INSERT INTO node_cursor (node, height) SELECT node, 1000000 FROM invoice GROUP BY node`, also: []int{2, 3, 6, 7, 9}},
	"5 loss":        {sql: `UPDATE action_history SET fact = 'INCOMING_LOST' WHERE action_id = {wrapped} AND to_state = 'PAID'`},
	"5 preimage":    {sql: `UPDATE relay_payment SET preimage = sha256('x') WHERE action_id = {withdrawn}`},

	"6 step":    {sql: `UPDATE action_history SET to_state = 'HELD' WHERE id = (SELECT max(id) FROM action_history WHERE to_state = 'RETRYING')`},
	"6 fact":    {sql: `UPDATE action_history SET fact = 'INVOICE_CANCELED' WHERE action_id = {opt} AND to_state = 'PAID'`},
	"6 gap":     {sql: `DELETE FROM action_history WHERE action_id = {held} AND to_state = 'HELD'`},
	"6 end":     {sql: `DELETE FROM action_history WHERE action_id = {opt} AND to_state = 'PAID'`, also: []int{2}},
	"6 none":    {sql: `DELETE FROM action_history WHERE action_id = {opt}`, also: []int{2}},
	"6 attempt": {sql: `UPDATE paid_action SET successor_id = 1 WHERE id = {retried}`},
	"6 guard":   {off: true, sql: `ALTER TABLE paid_action DISABLE TRIGGER refuse_step`, also: []int{1}},

	"7 no-deadline": {do: open, sql: `ALTER TABLE paid_action DROP CONSTRAINT open_has_deadline; UPDATE paid_action SET deadline = NULL`},
	"7 no-job":      {do: open},
	"7 undelivered": {sql: message},
	"7 overdue":     {do: func(w *enginetest.World) { open(w); w.Clock.Advance(time.Hour) }},
	"7 height": {do: func(w *enginetest.World) {
		pa := w.Pay(0, community.KindDonate, community.DonateArgs{Sats: 1}, paidaction.Pessimistic)
		if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
			w.Fatal(err)
		}
		w.Advance(pa.ID)
		w.WantState(pa.ID, paidaction.Held)
	}, sql: `INSERT INTO node_cursor (node, height) SELECT node, 1000000 FROM invoice GROUP BY node`},

	"8 two-actions": {sql: `DROP INDEX paid_action_key; UPDATE paid_action SET idempotency_key = 'x', args_hash = sha256('x') WHERE payer_id IS NOT NULL`},
	"8 guessable": {do: open, sql: `INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args, result, idempotency_key, args_hash)
		VALUES ('RECEIVE', 'BALANCE', 'ZERO_COST', 'PAID', 0, now(), now(), '{}', '{}', 'short', sha256('x'));
		INSERT INTO action_history (action_id, to_state, fact, at) SELECT max(id), 'PAID', 'REQUESTED', now() FROM paid_action`, also: []int{7}},
	"8 no-hash": {sql: `UPDATE paid_action SET idempotency_key = 'x', args_hash = 'x' WHERE id = {opt}`},
	"8 guard":   {sql: `DROP INDEX paid_action_anonymous_key`},

	"9 node-missing": {do: open, sql: `UPDATE invoice SET node = 'elsewhere' WHERE action_id = (SELECT max(id) FROM paid_action)`, also: []int{7}},
	"9 two-names": {sql: `INSERT INTO lightning_node (name, public_key, changed_at) VALUES ('sim', 'the same', now()), ('before', 'the same', now())
		ON CONFLICT (name) DO UPDATE SET public_key = 'the same'; UPDATE invoice SET node = 'before'; UPDATE relay_attempt SET node = 'before' WHERE node = 'sim';
		UPDATE relay_payment SET node = 'before' WHERE node = 'sim'`},
	"9 invoice-lost": {do: func(w *enginetest.World) { w.Node.Wipe() }},
	"9 bolt11":       {sql: `UPDATE invoice SET bolt11 = (SELECT bolt11 FROM invoice WHERE action_id = {opt}) WHERE action_id = {held}`},
	"9 on-chain": {lies: liars{invoice: func(inv *paidaction.NodeInvoice) {
		if inv.State == paidaction.InvoiceCanceled {
			inv.State, inv.Received, inv.OnChain = paidaction.InvoiceSettled, inv.Amount, inv.Amount
		}
	}}},
	"9 settled":      {lies: liars{invoice: saying(paidaction.InvoiceCanceled, paidaction.InvoiceSettled)}},
	"9 canceled":     {lies: liars{invoice: saying(paidaction.InvoiceSettled, paidaction.InvoiceCanceled)}},
	"9 held":         {lies: liars{invoice: saying(paidaction.InvoiceSettled, paidaction.InvoiceAccepted)}},
	"9 open":         {lies: liars{invoice: saying(paidaction.InvoiceCanceled, paidaction.InvoiceOpen)}},
	"9 received":     {lies: liars{invoice: func(inv *paidaction.NodeInvoice) { inv.Received++ }}},
	"9 payment-lost": {lies: liars{payment: func(*paidaction.PaymentUpdate) error { return paidaction.ErrPaymentNotFound }}},
	"9 paid-out":     {lies: liars{payment: paying(paidaction.PaymentFailed, paidaction.PaymentSucceeded)}},
	"9 not-booked":   {sql: `UPDATE relay_payment SET stage = 'pending_confirmation', fee_msat = NULL WHERE action_id = {wrapped}`},
	"9 not-paid-out": {lies: liars{payment: paying(paidaction.PaymentSucceeded, paidaction.PaymentFailed)}},
	"9 may-pay":      {lies: liars{payment: paying(paidaction.PaymentFailed, paidaction.PaymentInFlight)}},
	"9 fee":          {lies: liars{payment: func(u *paidaction.PaymentUpdate) error { u.Fee++; return nil }}},
	"9 set-aside":    {sql: `DELETE FROM posting WHERE action_id = {withdrawn} AND from_account = 6 AND reason = 'unused routing fee'`, also: []int{1}},
	"9 terms":        {sql: `UPDATE relay_payment SET amount_msat = amount_msat + 1 WHERE action_id = {wrapped}`},
	"9 booked-fee":   {sql: `UPDATE relay_payment SET fee_msat = fee_msat + 1 WHERE action_id = {withdrawn}`},
	"9 unclaimed":    {sql: `UPDATE relay_attempt SET outcome = 'FAILED' WHERE outcome = 'PAID'`},
	"9 claim":        {sql: `UPDATE relay_payment SET node = 'elsewhere' WHERE action_id = {withdrawn}`},
	"9 own-preimage": {sql: `UPDATE invoice SET preimage = sha256('x') WHERE action_id = {retried}`},
	"9 record-lost":  {sql: `DELETE FROM invoice WHERE action_id = {retried}`},
	"9 not-issued": {do: func(w *enginetest.World) {
		preimage := paidaction.Preimage{9}
		_, err := w.Node.OpenInvoice(w.Ctx, paidaction.InvoiceRequest{
			Preimage: preimage, Hash: preimage.Hash(), Amount: 5 * sat, Memo: "forgotten", Expiry: time.Hour, CLTVDelta: 80})
		if err != nil {
			w.Fatal(err)
		}
		if err := w.Node.PayHash(preimage.Hash(), simnode.Payment{}); err != nil {
			w.Fatal(err)
		}
	}},
	"9 not-recorded": {do: func(w *enginetest.World) {
		pay(w, w.Node, w.Network.AddReceiver("stranger").Issue(simnode.Ask{Amount: 5 * sat}).Bolt11)
	}},
}

// partial are the kinds that a full run finds under another name.
var partial = []string{"1 total"}

const (
	guardsOff = `UPDATE account SET balance = balance + (SELECT coalesce(sum(msat), 0) FROM balance_delta WHERE account_id = account.id); DELETE FROM balance_delta; ` +
		`ALTER TABLE paid_action DISABLE TRIGGER USER; ALTER TABLE action_history DISABLE TRIGGER USER; ALTER TABLE posting DISABLE TRIGGER USER; ` +
		`ALTER TABLE reward DISABLE TRIGGER USER; ALTER TABLE reward_day DISABLE TRIGGER USER; ALTER TABLE invoice DISABLE TRIGGER USER; ` +
		`ALTER TABLE relay_payment DISABLE TRIGGER USER; ALTER TABLE relay_attempt DISABLE TRIGGER USER; ALTER TABLE foreign_hash DISABLE TRIGGER USER; ` +
		`ALTER TABLE account DISABLE TRIGGER USER; ALTER TABLE balance_delta DISABLE TRIGGER USER; ALTER TABLE inner_invoice DISABLE TRIGGER USER; `
	guardsOn = `; ALTER TABLE paid_action ENABLE TRIGGER USER; ALTER TABLE action_history ENABLE TRIGGER USER; ALTER TABLE posting ENABLE TRIGGER USER; ` +
		`ALTER TABLE reward ENABLE TRIGGER USER; ALTER TABLE reward_day ENABLE TRIGGER USER; ALTER TABLE invoice ENABLE TRIGGER USER; ` +
		`ALTER TABLE relay_payment ENABLE TRIGGER USER; ALTER TABLE relay_attempt ENABLE TRIGGER USER; ALTER TABLE foreign_hash ENABLE TRIGGER USER; ` +
		`ALTER TABLE account ENABLE TRIGGER USER; ALTER TABLE balance_delta ENABLE TRIGGER USER; ALTER TABLE inner_invoice ENABLE TRIGGER USER`
)

// Each kind of break is made alone, with every guard of the database off. It is found under its invariant, with what is
// involved and what to do, and as nothing else.
func TestEveryKindOfBreakIsFound(t *testing.T) {
	t.Parallel()
	once := lived(t)
	left := map[string]bool{}
	for name := range breakings {
		left[name] = true
	}
	for _, k := range reconcile.Kinds() {
		name := fmt.Sprint(k.Invariant, " ", k.Name)
		if k.Invariant == 10 {
			continue // has a test of its own, in a database that may have deadlocks
		}
		c, ok := breakings[name]
		if !ok {
			t.Errorf("%s is never broken here", name)
			continue
		}
		delete(left, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w *enginetest.World
			if c.do == nil {
				w = copied(t, once)
			} else {
				w = lived(t)
				c.do(w)
			}
			switch sql := someAction.Replace(c.sql); {
			case sql == "":
			case c.off:
				exec(w, sql)
			default:
				exec(w, guardsOff+sql+guardsOn)
			}
			config := compared(w)
			if c.lies.Nodes = config.Nodes; c.lies.invoice != nil || c.lies.payment != nil {
				config.Nodes = c.lies
			}
			if slices.Contains(partial, name) {
				config.Changed = w.Clock.Now().Add(-100 * time.Hour)
			}
			report, err := reconcile.Run(w.Ctx, config)
			if err != nil {
				t.Fatal(err)
			}
			wantBroken(t, report, k, c.also)
		})
	}
	for name := range left {
		t.Errorf("there is no kind %s", name)
	}
}

// An option of a poll counts votes as an item counts zaps.
func TestAPollThatCountsOtherVotesIsFound(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, `INSERT INTO poll_option (item_id, position, text, votes) SELECT min(id), 9, 'another', 1 FROM item`)
	report, err := reconcile.Run(w.Ctx, compared(w))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(reconcile.Kinds(), func(k *reconcile.Kind) bool { return k.Invariant == 3 && k.Name == "counter" })
	wantBroken(t, report, reconcile.Kinds()[i], nil)
}

// wantBroken fails the test unless this kind of break is reported in full, and only its own invariant and those in also
// are broken.
func wantBroken(t *testing.T, report *reconcile.Report, k *reconcile.Kind, also []int) {
	t.Helper()
	told := false
	for _, i := range report.Invariants {
		if i.Broken > 0 && i.ID != k.Invariant && !slices.Contains(also, i.ID) {
			t.Errorf("invariant %d is broken too: %v", i.ID, i.Breaks)
		}
		for _, b := range i.Breaks {
			told = told || (i.ID == k.Invariant && b.Kind == k.Name)
			if b.What == "" || b.Mend == "" || strings.ContainsAny(b.Mend, "{}") {
				t.Errorf("not told in full: %+v", b)
			}
		}
	}
	if !told || report.OK {
		t.Errorf("not found: %+v", report)
	}
}

func exec(w *enginetest.World, sql string) {
	w.Helper()
	if _, err := w.Pool.Exec(w.Ctx, sql); err != nil {
		w.Fatal(err)
	}
}

// pay has a node pay an invoice without our knowledge.
func pay(w *enginetest.World, node *simnode.Node, bolt11 string) {
	w.Helper()
	err := node.Pay(w.Ctx, paidaction.PaymentRequest{Bolt11: bolt11, FeeLimit: 10 * sat, Timeout: time.Second}, func(paidaction.PaymentUpdate) error { return nil })
	if err != nil {
		w.Fatal(err)
	}
}

// A row trigger of a table guards all its partitions: if it is off on just one, that is found. A statement trigger is
// on the table alone.
func TestAGuardThatIsOffSomewhereIsFound(t *testing.T) {
	t.Parallel()
	once := lived(t)
	for name, off := range map[string]string{
		"one partition": `ALTER TABLE posting_1 DISABLE TRIGGER USER`, "the rest": `ALTER TABLE posting_rest DISABLE TRIGGER USER`,
		"a partition to come":   `ALTER TABLE action_history_10000001 DISABLE TRIGGER USER`,
		"postings of no action": `ALTER TABLE posting DISABLE TRIGGER posting_action_known`, "steps of no action": `DROP TRIGGER history_action_known ON action_history`,
		"actions of nobody": `DROP TRIGGER action_payer_known ON paid_action`, "people who can be deleted": `ALTER TABLE usr DISABLE TRIGGER refuse_user_delete`,
		"keys that stay good":         `ALTER TABLE api_key DISABLE TRIGGER begin_key_epoch`,
		"actions that can be deleted": `DROP TRIGGER refuse_delete ON paid_action`,
		"money that can be lost":      `DROP TRIGGER balance_delta_folded ON balance_delta`, "accounts that can be lost": `ALTER TABLE account DISABLE TRIGGER account_kept`,
		"a partition to be emptied": `ALTER TABLE posting_1 DISABLE TRIGGER posting_not_truncated`, "a partition that can be emptied": `DROP TRIGGER posting_not_truncated ON posting_1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copied(t, once)
			exec(w, off)
			found := ""
			for _, i := range run(t, w).Invariants {
				for _, b := range i.Breaks {
					if b.Kind == "guard" {
						found = b.What
					}
				}
			}
			// Whoever has to switch a trigger on again is told on which table.
			if what := strings.Fields(off); what[0] == "ALTER" && !strings.HasSuffix(found, " of the table "+what[2]+" is switched off") ||
				what[0] == "DROP" && found != what[2]+" is gone" {
				t.Errorf("after %s: %q", off, found)
			}
		})
	}
}

// What is archived keeps the constraints and the names of what it was, and so do partitions: they guard nothing.
func TestAGuardThatIsArchivedIsMissed(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, `CREATE TABLE archive.posting_x (LIKE posting INCLUDING CONSTRAINTS); CREATE TABLE archive.zap_x (LIKE zap, CONSTRAINT zap_pkey PRIMARY KEY (action_id));
		CREATE TRIGGER posting_action_known BEFORE TRUNCATE ON archive.posting_x EXECUTE FUNCTION refuse_posting_change();
		ALTER TABLE posting DROP CONSTRAINT one_asset; ALTER TABLE zap DROP CONSTRAINT zap_pkey; DROP TRIGGER posting_action_known ON posting`)
	report, missed := run(t, w), []string{}
	for _, i := range report.Invariants {
		for _, b := range i.Breaks {
			missed = append(missed, b.What)
		}
	}
	if want := []string{"posting_action_known is gone", "one_asset is gone", "zap_pkey is gone"}; !slices.Equal(missed, want) {
		t.Errorf("%q", missed)
	}
}

// Breaks that are about no action are identified by their explanation: each account and each guard counts, and is
// named.
func TestBreaksOfNoActionAreEachCounted(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, `UPDATE account SET balance = balance + 1 WHERE id IN (SELECT id FROM account ORDER BY id LIMIT 4);
		ALTER TABLE posting DISABLE TRIGGER posting_append_only; DROP TRIGGER history_action_known ON action_history; DROP TRIGGER refuse_delete ON paid_action`)
	c := compared(w)
	c.Again = time.Millisecond // looking again takes none of them away
	report, err := reconcile.Run(w.Ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, i := range report.Invariants {
		for _, b := range i.Breaks {
			counted[fmt.Sprint(i.ID, " ", b.Kind)]++
		}
	}
	if counted["1 balance"] != 4 || counted["1 guard"] != 1 || counted["6 guard"] != 2 {
		t.Errorf("%v", counted)
	}
}

// A node may go once nothing of it is open: nobody can ask about what has ended there, so that is no break.
func TestANodeThatIsGoneBreaksNothingThatHasEnded(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, `UPDATE invoice SET node = 'elsewhere'; UPDATE relay_attempt SET node = 'elsewhere'`)
	c := compared(w)
	c.Senders = nil // or what the others have paid would be found as paid elsewhere
	report, err := reconcile.Run(w.Ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range report.Invariants[8].Breaks {
		if b.Kind == "node-missing" {
			t.Errorf("%+v", b)
		}
	}
	exec(w, `UPDATE relay_payment SET stage = 'pending_confirmation', fee_msat = NULL WHERE stage = 'completed'`)
	if report, err = reconcile.Run(w.Ctx, c); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(report.Invariants[8].Breaks, func(b reconcile.Break) bool { return b.Kind == "node-missing" }) {
		t.Errorf("a payment that is open cannot be asked for, and nobody is told: %+v", report.Invariants[8])
	}
}

// Without the service's settings nobody is told that all is well: no node was asked.
func TestWithoutAnyNodeNotEverythingIsLookedAt(t *testing.T) {
	t.Parallel()
	w := lived(t)
	c := compared(w)
	c.Nodes, c.Senders, c.Issuers = simnode.Nodes{}, nil, nil
	report, err := reconcile.Run(w.Ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if report.OK || len(report.Unknown) != 1 || !strings.Contains(report.Unknown[0], "no node is configured") || report.Invariants[8].Broken != 0 {
		t.Errorf("%+v", report)
	}
}

// Following the advice mends it: once what was wrongly taken is given back by hand, the break is gone.
func TestWhatIsGivenBackByHandIsNoBreak(t *testing.T) {
	t.Parallel()
	w := lived(t)
	for kind, action := range map[string]string{"charged": "{retried}", "wrong-amount": "{credits}", "several-sources": "{held}"} {
		exec(w, someAction.Replace(`{transfer} VALUES (`+action+`, 33, 3, 5, 'x', '2026-01-01') {booked}`))
		found := run(t, w).Invariants[1]
		if !slices.ContainsFunc(found.Breaks, func(b reconcile.Break) bool {
			return b.Kind == kind && strings.Contains(b.Mend, "'given back by hand'")
		}) {
			t.Errorf("%s: %+v", kind, found)
		}
		exec(w, someAction.Replace(`{transfer} VALUES (`+action+`, 3, 33, 5, 'given back by hand', '2026-01-01') {booked}`))
		if report := run(t, w); !report.OK {
			t.Errorf("%s: %+v", kind, report)
		}
	}
}

// The same holds for what went to somebody else than the payer: it comes to them through a clearing account.
func TestWhatIsPutRightByHandIsNoBreak(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, guardsOff+someAction.Replace(breakings["2 other-receiver"].sql)+guardsOn)
	for _, sql := range []string{`NULL, 16, 10, 25000, 'x'`, `{refunded}, 10, 32, 25000, 'put right by hand'`} {
		if run(t, w).OK {
			t.Error("it counts as put right too early")
		}
		exec(w, someAction.Replace(`{transfer} VALUES (`+sql+`, '2026-01-01') {booked}`))
	}
	if report := run(t, w); !report.OK {
		t.Errorf("%+v", report)
	}
}

// Whoever has lost all accounts is told so, by each run.
func TestWithoutAccountsEachIsMissed(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, guardsOff+`TRUNCATE account`+guardsOn)
	for changed, want := range map[time.Time]int64{{}: 9 + 4, w.Clock.Now().Add(-time.Hour): 9} {
		config, missing := compared(w), int64(0)
		config.Changed = changed
		report, err := reconcile.Run(w.Ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range report.Invariants[0].Breaks {
			if b.Kind == "account" {
				missing++
			}
		}
		if missing != want {
			t.Errorf("changed since %s: %d are missed, want %d: %+v", changed, missing, want, report.Invariants[0])
		}
	}
}

// A node that was given another name has taken and paid what is recorded under the one before. Whoever is told that it
// is not recorded, or was paid by two nodes, gives money back that nobody lost.
func TestANodeOfTwoNamesIsNotTakenForTwo(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, breakings["9 two-names"].sql)
	report, err := reconcile.Run(w.Ctx, compared(w))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		for _, b := range i.Breaks {
			if b.Kind != "two-names" || b.Node != "sim" || !strings.Contains(b.What, "before") {
				t.Errorf("invariant %d: %+v", i.ID, b)
			}
		}
	}
}

// What was taken for an action that is not paid goes back, whoever's it was. Whoever is also told that it is not the
// payer's would take it from the payer.
func TestWhatWasTakenForNothingIsNotToBeTakenFromThePayer(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, guardsOff+someAction.Replace(breakings["2 charged"].sql)+guardsOn)
	report, err := reconcile.Run(w.Ctx, compared(w))
	if err != nil {
		t.Fatal(err)
	}
	if breaks := report.Invariants[1].Breaks; len(breaks) != 1 || breaks[0].Kind != "charged" {
		t.Errorf("%+v", breaks)
	}
}
