package community_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// flowCases say of each action what it is asked for and what must come of it. Every action of the application has one, and is driven
// by it over every method and every outcome; an action's case lies in a file of its own.
var flowCases = map[string]func(w *enginetest.World, payer int64, m paidaction.Method) *scene{
	community.KindItemCreate: itemCreateScene,
	community.KindPollVote:   pollVoteScene,
	community.KindItemUpdate: itemUpdateScene,
	community.KindZap:        zapScene,
	community.KindDownZap:    downZapScene,
	community.KindBoost:      boostScene,
	community.KindDonate:     donateScene,
	community.KindBuyCredits: buyCreditsScene,
	community.KindReceive:    receiveScene,
	community.KindWithdraw:   withdrawScene,

	community.KindTerritoryCreate:    territoryCreateScene,
	community.KindTerritoryUpdate:    territoryUpdateScene,
	community.KindTerritoryBilling:   territoryBillingScene,
	community.KindTerritoryUnarchive: territoryUnarchiveScene,
	community.KindInviteGift:         inviteGiftScene,
}

// scene is one action that is about to be paid for. The payer has just enough for it: poor takes it away.
type scene struct {
	args any
	cost paidaction.Msat
	// secret is what an anonymous payer shows with it; empty where nothing is to be shown.
	secret string
	// paid is where the price goes in the books, in msat; the payer's side is left out, and so is the way from sats to credits.
	paid map[ledger.Account]int64
	// see is what somebody sees of all that the action may touch; viewer nil is the anonymous. It is nil where nobody but the payer ever sees
	// anything of it.
	see func(viewer *int64) any
	// told are those who are notified once it is paid, or the payment has arrived.
	told []int64
	// spoil makes it impossible to perform from now on; nil where nothing can.
	spoil func()
	// receiver is whose wallet method P2P pays; 0 where that is no method of the action.
	receiver int64
	// wallet is the receiver's (method P2P), or that of the payee (a withdrawal).
	wallet *enginetest.Wallet
}

// outcome is one way in which an action can go.
type outcome struct {
	name string
	flow paidaction.Flow
	run  func(d *drive)
}

var outcomes = []outcome{
	{"paid", paidaction.FlowBalance, (*drive).paidAtOnce},
	{"without the money", paidaction.FlowBalance, (*drive).poor},
	{"paid", paidaction.FlowOptimistic, (*drive).paidByInvoice},
	{"expired", paidaction.FlowOptimistic, (*drive).expired},
	{"cancelled", paidaction.FlowOptimistic, (*drive).cancelled},
	{"tried again", paidaction.FlowOptimistic, (*drive).triedAgain},
	{"paid", paidaction.FlowPessimistic, (*drive).paidByInvoice},
	{"expired", paidaction.FlowPessimistic, (*drive).expired},
	{"cancelled", paidaction.FlowPessimistic, (*drive).cancelled},
	{"tried again", paidaction.FlowPessimistic, (*drive).triedAgain},
	{"impossible once held", paidaction.FlowPessimistic, (*drive).impossible},
	{"paid", paidaction.FlowWrapped, (*drive).paidDirectly},
	{"expired", paidaction.FlowWrapped, (*drive).expired},
	{"receiver not reached", paidaction.FlowWrapped, (*drive).notReached},
	{"paid", paidaction.FlowOutgoing, (*drive).paidOut},
	{"refused by the payee", paidaction.FlowOutgoing, (*drive).refusedOut},
}

// TestEveryActionOverAllItsFlows: state, ledger to the millisatoshi, effects, jobs, and what each other person sees at every moment.
func TestEveryActionOverAllItsFlows(t *testing.T) {
	t.Parallel()
	for _, def := range community.Actions(community.DefaultSettings()) {
		spec := def.Spec()
		methods := spec.Methods
		if spec.Free && !slices.Contains(methods, paidaction.ZeroCost) {
			methods = append(slices.Clone(methods), paidaction.ZeroCost)
		}
		for _, m := range methods {
			for _, o := range outcomes {
				if o.flow != m.Flow() {
					continue
				}
				for _, payer := range payersOf(spec, m) {
					name := fmt.Sprintf("%s/%s/%s", spec.Kind, m, o.name)
					if payer == "" {
						name += "/anonymous"
					}
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						d := play(enginetest.New(t, paidaction.Settings{}), spec, m, payer)
						if d == nil {
							return
						}
						o.run(d)
						d.wantNothingLeft()
						d.WantConserved()
					})
				}
			}
		}
	}
}

// payersOf are those who can pay for an action by all these methods: "" is the anonymous, who have no balance, and see nothing before it is paid.
func payersOf(spec paidaction.Spec, methods ...paidaction.Method) []string {
	known := func(m paidaction.Method) bool {
		return m.Flow() == paidaction.FlowBalance || m.Flow() == paidaction.FlowOptimistic
	}
	if !spec.Anonable || slices.ContainsFunc(methods, known) {
		return []string{"payer"}
	}
	return []string{"payer", ""}
}

// play sets an action's scene; nil where its case says that the method leads nowhere.
func play(w *enginetest.World, spec paidaction.Spec, m paidaction.Method, payer string) *drive {
	w.Helper()
	set, ok := flowCases[spec.Kind]
	if !ok {
		w.Fatalf("%s has no case: add one to flowCases (docs/add-an-action.md)", spec.Kind)
	}
	d := &drive{World: w, method: m, kind: spec.Kind,
		keeps: slices.Contains(spec.Methods, paidaction.Optimistic) || slices.Contains(spec.Methods, paidaction.P2P)}
	if payer != "" {
		d.payer = w.User(payer, 0, 0)
	}
	d.other = w.User("somebody_else", 0, 0)
	if d.scene = set(w, d.payer, m); d.scene == nil {
		return nil
	}
	return d
}

// drive is a scene being played.
type drive struct {
	*enginetest.World
	*scene
	kind         string
	keeps        bool // what one attempt has made is the next one's
	method       paidaction.Method
	payer, other int64
	books        map[ledger.Account]int64 // before
	seen         string                   // by others, before
	notified     int64                    // before
}

// begin notes how things stand, gives the payer what the method takes, and asks for the action.
func (d *drive) begin() *paidaction.PaidAction {
	d.Helper()
	d.note()
	return d.ask(nil, d.method)
}

// ask asks for the action by a method, once more after an attempt that has failed; nil where it is the first.
func (d *drive) ask(failed *paidaction.PaidAction, m paidaction.Method) *paidaction.PaidAction {
	d.Helper()
	pa, err := d.tryAsk(failed, m)
	if err != nil {
		d.Fatalf("%s by %s: %v", d.kind, m, err)
	}
	return pa
}

func (d *drive) tryAsk(failed *paidaction.PaidAction, m paidaction.Method) (*paidaction.PaidAction, error) {
	terms := paidaction.Terms{Method: m}
	if failed != nil {
		return d.Engine.Retry(d.Ctx, d.caller(failed), failed.ID, "", terms, nil)
	}
	caller := enginetest.Caller(d.payer)
	caller.Secret = d.secret
	return d.Engine.Pay(d.Ctx, paidaction.Request{Kind: d.kind, Args: d.args, Terms: terms, Caller: caller})
}

func (d *drive) note() {
	d.Helper()
	var transfers []ledger.Transfer
	switch d.method {
	case paidaction.FeeCredit:
		transfers = []ledger.Transfer{
			{From: ledger.Lightning, To: ledger.BackingSats, Msat: int64(d.cost), Reason: "deposit"},
			{From: ledger.IssuedCredits, To: ledger.UserCredits(d.payer), Msat: int64(d.cost), Reason: "deposit"}}
	case paidaction.RewardSats, paidaction.Outgoing:
		transfers = []ledger.Transfer{{From: ledger.Lightning, To: ledger.UserSats(d.payer), Msat: int64(d.cost), Reason: "deposit"}}
	}
	if err := ledger.Post(d.Ctx, db.New(d.Pool), nil, d.Clock.Now(), transfers); err != nil {
		d.Fatal(err)
	}
	d.books, d.seen = d.balances(), d.others()
	d.notified = d.Count(`SELECT count(*) FROM notification`)
}

// balances are those of all accounts.
func (d *drive) balances() map[ledger.Account]int64 {
	d.Helper()
	rows, err := d.Pool.Query(d.Ctx, `SELECT id, sum(m)::bigint FROM (
		SELECT id, balance AS m FROM account UNION ALL SELECT account_id, msat FROM balance_delta) x GROUP BY id HAVING sum(m) <> 0`)
	if err != nil {
		d.Fatal(err)
	}
	defer rows.Close()
	all := map[ledger.Account]int64{}
	for rows.Next() {
		var id, msat int64
		if err := rows.Scan(&id, &msat); err != nil {
			d.Fatal(err)
		}
		all[ledger.Account(id)] = msat
	}
	return all
}

// others is what somebody else and the anonymous see.
func (d *drive) others() string {
	d.Helper()
	if d.see == nil {
		return ""
	}
	raw, err := json.Marshal([]any{d.see(&d.other), d.see(nil)})
	if err != nil {
		d.Fatal(err)
	}
	return string(raw)
}

// wantUnseen fails the test if others see anything of the action, or anything is in the books.
func (d *drive) wantUnseen(when string) {
	d.Helper()
	if got := d.others(); got != d.seen {
		d.Errorf("%s, others see\n%s\nand saw before\n%s", when, got, d.seen)
	}
	if got := d.balances(); !maps.Equal(got, d.books) {
		d.Errorf("%s, the books hold %v, before %v", when, got, d.books)
	}
	d.wantTold(when, nil)
}

func (d *drive) wantTold(when string, want []int64) {
	d.Helper()
	rows, err := d.Pool.Query(d.Ctx, `SELECT user_id, kind FROM notification WHERE kind <> 'PAYMENT_FAILED' ORDER BY id OFFSET $1`, d.notified)
	if err != nil {
		d.Fatal(err)
	}
	defer rows.Close()
	var got []int64
	for rows.Next() {
		var user int64
		var kind string
		if err := rows.Scan(&user, &kind); err != nil {
			d.Fatal(err)
		}
		got = append(got, user)
		if !slices.Contains(notificationKinds(), kind) {
			d.Errorf("somebody is told %s, which is not in the list at Notification.kind in schema.graphql", kind)
		}
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		d.Errorf("%s, told were %v, want %v", when, got, want)
	}
}

// notificationKinds are the words where clients are told which there are.
var notificationKinds = sync.OnceValue(func() []string {
	schema, _ := os.ReadFile("../schema.graphql") // without it there is no kind
	_, list, _ := strings.Cut(string(schema), "type Notification {")
	list, _, _ = strings.Cut(list, "kind: String!")
	return regexp.MustCompile(`\w+`).FindAllString(list, -1)
})

// wantPaid fails the test unless the price is where it belongs, others see what was paid for, and all are told.
func (d *drive) wantPaid(id int64) {
	d.Helper()
	pa := d.WantState(id, paidaction.Paid)
	if pa.Cost != d.cost && d.method != paidaction.ZeroCost {
		d.Errorf("it costs %d msat, want %d", pa.Cost, d.cost)
	}
	want := maps.Clone(d.books)
	sats := d.method != paidaction.FeeCredit
	for account, msat := range d.paid {
		want[account] += msat
		if sats && msat > 0 && account.Asset() == ledger.Credits {
			want[ledger.BackingSats] += msat
			want[ledger.IssuedCredits] -= msat
		}
	}
	switch d.method {
	case paidaction.ZeroCost:
	case paidaction.FeeCredit:
		want[ledger.UserCredits(d.payer)] -= int64(d.cost)
	case paidaction.RewardSats, paidaction.Outgoing:
		want[ledger.UserSats(d.payer)] -= int64(d.cost)
	default:
		want[ledger.Lightning] -= int64(d.cost)
	}
	maps.DeleteFunc(want, func(_ ledger.Account, msat int64) bool { return msat == 0 })
	if got := d.balances(); !maps.Equal(got, want) {
		d.Errorf("the books hold\n%v, want\n%v, before\n%v", got, want, d.books)
	}
	if d.see != nil && d.others() == d.seen {
		d.Error("others do not see what was paid for")
	}
	d.wantTold("once paid", d.told)
	d.wantReconciled(id)
}

// wantTakenOver fails the test if a row stays with an attempt that has failed, though the next one takes over what was made.
func (d *drive) wantTakenOver() {
	d.Helper()
	for _, t := range enginetest.Tables(d.Ctx, d, d.Pool) {
		if n := d.Count(fmt.Sprintf(`SELECT count(*) FROM %[1]s JOIN paid_action a ON a.id = %[1]s.%[2]s WHERE a.kind = $1 AND a.state IN ('FAILED', 'RETRYING')`, t.Name, t.Action), d.kind); n != 0 && d.keeps {
			d.Errorf("%d rows of %s stay with an attempt before: does %s have a Retry that hands them on (docs/add-an-action.md)?", n, t.Name, d.kind)
		}
	}
}

// wantFailed fails the test unless everything is as before for everybody but the payer.
func (d *drive) wantFailed(id int64, code paidaction.Code) {
	d.Helper()
	pa := d.WantState(id, paidaction.Failed)
	if pa.Failure == nil || pa.Failure.Code != code {
		d.Errorf("failure %v, want %s", pa.Failure, code)
	}
	d.wantUnseen("once failed")
}

// wantNothingLeft fails the test if an hour later there is still something to do, anything that is PAID has changed, or what was made is not as its action is.
func (d *drive) wantNothingLeft() {
	d.Helper()
	states := func() (all []string) {
		rows, err := d.Pool.Query(d.Ctx, `SELECT id || state::text FROM paid_action ORDER BY id`)
		if err != nil {
			d.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				d.Fatal(err)
			}
			all = append(all, s)
		}
		return all
	}
	before := states()
	d.Clock.Advance(time.Hour)
	d.Drain()
	if after := states(); !reflect.DeepEqual(before, after) {
		d.Errorf("an hour later %v became %v", before, after)
	}
	if n := d.Count(`SELECT count(*) FROM test_job`); n != 0 {
		d.Errorf("%d jobs are left", n)
	}
	if n := d.Count(`SELECT count(*) FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING')`); n != 0 {
		d.Errorf("%d actions are open", n)
	}
	if d.Faults.Conflicts != 0 || len(d.Faults.Errors) != 0 {
		d.Errorf("%d conflicts, faults %v", d.Faults.Conflicts, d.Faults.Errors)
	}
	d.wantEffects()
}

func (d *drive) paidAtOnce() {
	pa := d.begin()
	d.Drain()
	d.wantPaid(pa.ID)
}

// poor: a balance that lacks a single millisatoshi pays for nothing.
func (d *drive) poor() {
	if d.method == paidaction.ZeroCost {
		return
	}
	d.cost--
	d.note()
	_, err := d.Try(d.payer, d.kind, d.args, d.method, "")
	d.WantRefusal(err, paidaction.CodeInsufficientFunds)
	d.wantUnseen("without the money")
	if n := d.Count(`SELECT count(*) FROM paid_action WHERE kind = $1 AND method::text = $2 AND payer_id = $3`, d.kind, string(d.method), d.payer); n != 0 {
		d.Errorf("%d rows", n)
	}
}

// send pays the invoice.
func (d *drive) send(pa *paidaction.PaidAction) {
	d.Helper()
	if err := d.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		d.Fatal(err)
	}
}

func (d *drive) paidByInvoice() {
	pa := d.begin()
	d.wantOpen(pa)
	d.finish(pa)
}

// wantOpen: the invoice is open, and only an optimistic action has been performed, for its payer alone.
func (d *drive) wantOpen(pa *paidaction.PaidAction) {
	d.Helper()
	d.wantUnseen("while the invoice is open")
	if performed := pa.Result != nil; performed != (d.method == paidaction.Optimistic) {
		d.Errorf("performed while the invoice is open: %v", performed)
	}
}

// finish pays an invoice, and everything that follows.
func (d *drive) finish(pa *paidaction.PaidAction) {
	d.Helper()
	d.send(pa)
	if d.method == paidaction.Pessimistic {
		d.Advance(pa.ID)
		if d.WantState(pa.ID, paidaction.Held).Result == nil {
			d.Error("held, and not performed")
		}
		d.wantUnseen("while the payment is held")
	}
	d.Drain()
	d.Advance(pa.ID)
	d.Drain()
	d.wantPaid(pa.ID)
}

func (d *drive) expired() {
	pa := d.begin()
	d.wantUnseen("while the invoice is open")
	d.Clock.Advance(time.Hour)
	d.Node.Tick()
	d.Drain()
	d.wantFailed(pa.ID, paidaction.CodeExpired)
}

func (d *drive) cancelled() {
	pa := d.begin()
	d.cancel(pa)
}

func (d *drive) cancel(pa *paidaction.PaidAction) {
	d.Helper()
	if _, err := d.Engine.Cancel(d.Ctx, d.caller(pa), pa.ID); err != nil {
		d.Fatal(err)
	}
	d.Drain()
	d.wantFailed(pa.ID, paidaction.CodeCanceled)
}

func (d *drive) caller(pa *paidaction.PaidAction) paidaction.Caller {
	c := enginetest.Caller(d.payer)
	c.Secret = pa.Secret
	return c
}

func (d *drive) triedAgain() {
	defer d.wantTakenOver() // also where the next attempt fails for want of that row
	pa := d.begin()
	d.cancel(pa)
	again, err := d.Engine.Retry(d.Ctx, d.caller(pa), pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		d.Fatal(err)
	}
	if again.Attempt != 2 || again.Method.Flow() == paidaction.FlowBalance {
		d.Fatalf("%+v", again)
	}
	d.method = again.Method // the walk begins anew, and what works first is taken
	d.wantOpen(again)
	d.finish(again)
	d.WantState(pa.ID, paidaction.Retrying)
}

// impossible: the payment goes back if the action cannot be performed any more.
func (d *drive) impossible() {
	if d.spoil == nil {
		return
	}
	pa := d.begin()
	d.spoil()
	d.books, d.seen = d.balances(), d.others()
	d.notified = d.Count(`SELECT count(*) FROM notification`)
	d.send(pa)
	d.Advance(pa.ID)
	d.Drain()
	failed := d.WantState(pa.ID, paidaction.Failed)
	if failed.Result != nil || failed.Failure == nil || failed.Failure.Code == paidaction.CodeInternal {
		d.Errorf("%+v, %v", failed, failed.Failure)
	}
	d.wantUnseen("once it was impossible")
	if inv, ok := d.Node.Inspect(pa.Invoice.Hash); !ok || inv.State != paidaction.InvoiceCanceled {
		d.Errorf("the payment is %s", inv.State)
	}
}

func (d *drive) paidDirectly() {
	d.forward(d.begin())
}

// forward pays an invoice that leads to the receiver's wallet, and has the receiver paid.
func (d *drive) forward(pa *paidaction.PaidAction) {
	d.Helper()
	d.wantUnseen("while the invoice is open")
	d.send(pa)
	d.Advance(pa.ID)
	d.WantState(pa.ID, paidaction.Forwarding)
	d.wantUnseen("while it is on its way")
	d.Run(d.Relay)
	d.Await(pa.ID, paidaction.Paid)
	d.AwaitStage(pa.ID, "completed")
	d.Drain()
	d.wantPaid(pa.ID)
}

func (d *drive) notReached() {
	d.wallet.Ask.Act = simnode.Refuses
	pa := d.begin()
	d.miss(pa)
	d.wantFailed(pa.ID, paidaction.CodePaymentFailed)
	if inv, ok := d.Node.Inspect(pa.Invoice.Hash); !ok || inv.State != paidaction.InvoiceCanceled {
		d.Errorf("the payer's payment is %s", inv.State)
	}
	// Some prepare another attempt by themselves. Nobody pays for it.
	d.Drain()
	d.Clock.Advance(time.Hour)
	d.Drain()
	d.wantUnseen("once the next attempt has expired")
}

// miss pays an invoice that leads to a receiver who refuses.
func (d *drive) miss(pa *paidaction.PaidAction) {
	d.Helper()
	d.send(pa)
	d.Advance(pa.ID)
	stop := d.Run(d.Relay)
	d.AwaitLeft(pa.ID, paidaction.Forwarding)
	stop()
	for d.Look(pa.ID).State != paidaction.Failed {
		d.Advance(pa.ID)
	}
}

func (d *drive) paidOut() {
	pa := d.begin()
	d.Run(d.Relay)
	d.Await(pa.ID, paidaction.Paid)
	d.AwaitStage(pa.ID, "completed")
	d.Drain()
	d.wantPaid(pa.ID)
}

func (d *drive) refusedOut() {
	d.wallet.Ask.Act = simnode.Refuses
	pa := d.begin()
	d.Run(d.Relay)
	d.Await(pa.ID, paidaction.Failed)
	d.Drain()
	d.wantFailed(pa.ID, paidaction.CodePaymentFailed)
}
