package relay_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// rich makes the payer somebody with so many sats to withdraw.
func (b *bundle) rich(sats int64) *bundle {
	b.Helper()
	b.payer = b.User("rich", 0, sats*1000)
	return b
}

// issue is an invoice of somebody outside.
func (b *bundle) issue(a simnode.Ask) simnode.Issued { return b.wallet.Receiver.Issue(a) }

// tryWithdraw asks for a withdrawal with a fee limit of 5 sats.
func (b *bundle) tryWithdraw(to string) (*paidaction.PaidAction, error) {
	return b.Try(b.payer, community.KindWithdraw, community.WithdrawArgs{To: to, MaxFeeSats: 5}, "", "")
}

func (b *bundle) withdraw(to string) *paidaction.PaidAction {
	b.Helper()
	pa, err := b.tryWithdraw(to)
	if err != nil {
		b.Fatal(err)
	}
	// A relay that is at work may have taken it on already.
	began := b.Count(`SELECT count(*) FROM action_history WHERE action_id = $1 AND from_state IS NULL AND to_state = $2`, pa.ID, paidaction.Forwarding)
	been := b.Count(`SELECT count(*) FROM action_history WHERE action_id = $1 AND to_state = $2`, pa.ID, pa.State)
	if began != 1 || been != 1 {
		b.Fatalf("it began %d times in FORWARDING, and was %d times what was answered: %+v", began, been, pa)
	}
	return pa
}

// wantPaidOut fails the test unless the receiver got so much under a hash, once.
func (b *bundle) wantPaidOut(h paidaction.Hash, want paidaction.Msat) {
	b.Helper()
	b.wantReceived(&paidaction.PaidAction{Invoice: &paidaction.Invoice{Hash: h}}, want)
}

func (b *bundle) wantSats(want int64) {
	b.Helper()
	b.WantBalance(ledger.UserSats(b.payer), want)
	b.WantBalance(ledger.RoutingSats, 0)
}

// What routing did not cost comes back to the millisatoshi.
func TestAWithdrawalToAnInvoice(t *testing.T) {
	b := setup(t).rich(100)
	b.Node.SetRoute(simnode.Route{Fee: 1_234, Blocks: 40})
	inv := b.issue(simnode.Ask{Amount: 50_500})
	pa := b.withdraw("lightning:" + inv.Bolt11)
	b.WantBalance(ledger.UserSats(b.payer), 100_000-50_500-5_000)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_500)
	b.wantSats(100_000 - 50_500 - 1_234)
	b.wantSound()
}

// Spec 05.15: a withdrawal that fails for good ends in FAILED, and gives back exactly what it took.
func TestAWithdrawalThatFailsIsRefunded(t *testing.T) {
	for name, spoil := range map[string]func(*bundle) simnode.Ask{
		"the fee limit is too low": func(b *bundle) simnode.Ask {
			b.Node.SetRoute(simnode.Route{Fee: 5_001, Blocks: 40})
			return simnode.Ask{Amount: 50_123}
		},
		"refused":     func(*bundle) simnode.Ask { return simnode.Ask{Amount: 50_123, Act: simnode.Refuses} },
		"no route":    func(*bundle) simnode.Ask { return simnode.Ask{Amount: 50_123, Act: simnode.Unreachable} },
		"no preimage": func(*bundle) simnode.Ask { return simnode.Ask{Amount: 50_123, Hash: paidaction.Hash{7}} },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t).rich(100)
			inv := b.issue(spoil(b))
			pa := b.withdraw(inv.Bolt11)
			b.Run(b.Relay)
			if failed := b.Await(pa.ID, paidaction.Failed); failed.Failure.Code != paidaction.CodePaymentFailed {
				t.Errorf("%v", failed.Failure)
			} else if told, noWay := strings.Contains(failed.Failure.Message, "a higher"), name == "the fee limit is too low" || name == "no route"; told != noWay {
				t.Errorf("told to allow a higher fee: %v, want %v: %s", told, noWay, failed.Failure.Message)
			}
			b.wantPaidOut(inv.Hash, 0)
			b.wantSats(100_000)
			if n := b.Count(`SELECT count(*) FROM posting WHERE action_id = $1`, pa.ID); n != 2 {
				t.Errorf("%d postings, want the debit and its return", n)
			}
			b.rounds(2)
			b.wantSats(100_000)
			b.wantSound()
		})
	}
}

// Spec 04 §4.3: whoever allows a lower routing fee than the service demands is told how much it demands, in sats that
// suffice. No address is asked for an invoice before that, and nothing is written.
func TestAWithdrawalAllowsTheLeastFee(t *testing.T) {
	for name, to := range map[string]func(b *bundle) community.WithdrawArgs{
		"to an invoice": func(b *bundle) community.WithdrawArgs {
			return community.WithdrawArgs{To: b.issue(simnode.Ask{Amount: 40_000}).Bolt11}
		},
		"to an address": func(b *bundle) community.WithdrawArgs {
			return community.WithdrawArgs{To: fmt.Sprintf("%d@holdfast.example", b.author), Sats: new(int64(40))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t).rich(100)
			withdraw := func(least paidaction.Msat, maxFee int64) (*paidaction.PaidAction, error) {
				b.Engine.Relay = b.NewRelay(func(c *relay.Config) { c.Settings.MinFee = least })
				args := to(b)
				args.MaxFeeSats = maxFee
				return b.Try(b.payer, community.KindWithdraw, args, "", "")
			}
			rows := func() int64 {
				return b.Count(`SELECT (SELECT count(*) FROM paid_action) + (SELECT count(*) FROM relay_payment)`)
			}
			before := rows()
			for _, least := range []paidaction.Msat{1_001, 2_000} {
				_, err := withdraw(least, 1)
				b.WantRefusal(err, paidaction.CodeInvalidAmount)
				if said, _ := paidaction.AsRefusal(err); said == nil || said.Message != "Allow a routing fee of at least 2 sats." {
					t.Errorf("of %d msat at least it is said: %v", least, err)
				}
			}
			if n := rows() - before; n != 0 {
				t.Errorf("%d rows are written", n)
			}
			if n := len(b.wallet.Issued); n != 0 {
				t.Errorf("the address was asked for %d invoices", n)
			}
			b.wantSats(100_000)
			if pa, err := withdraw(2_000, 2); err != nil || pa.State != paidaction.Forwarding {
				t.Errorf("a fee of 2 sats is allowed: %+v, %v", pa, err)
			}
		})
	}
}

// at runs what n times at once, and returns the actions that came of it.
func at(n int, what func() (*paidaction.PaidAction, error)) (made []*paidaction.PaidAction, refused []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			pa, err := what()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = append(refused, err)
				return
			}
			made = append(made, pa)
		})
	}
	all.Wait()
	return made, refused
}

// Spec 05.3: the same invoice, withdrawn many times at once, is paid once; nobody is told that it was paid who did not pay it.
func TestOneInvoiceWithdrawnManyTimesIsPaidOnce(t *testing.T) {
	b := setup(t, "one", "two").rich(1_000)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	made, refused := at(6, func() (*paidaction.PaidAction, error) { return b.tryWithdraw(inv.Bolt11) })
	if len(made) != 1 {
		t.Fatalf("%d withdrawals, refused %v", len(made), refused)
	}
	for _, err := range refused {
		b.WantRefusal(err, paidaction.CodeDuplicate)
	}
	b.Run(b.Relay)
	b.Run(b.NewRelay())
	b.Await(made[0].ID, paidaction.Paid)
	if _, err := b.tryWithdraw(inv.Bolt11); !errors.Is(err, paidaction.Refused(paidaction.CodeDuplicate)) {
		t.Errorf("what was paid can be withdrawn again: %v", err)
	}
	// Nor by another invoice with the same hash.
	again := b.issue(simnode.Ask{Amount: 60_000, Hash: inv.Hash})
	if _, err := b.tryWithdraw(again.Bolt11); !errors.Is(err, paidaction.Refused(paidaction.CodeDuplicate)) {
		t.Errorf("the hash can be paid again: %v", err)
	}
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSats(949_000)
	b.wantSound()
}

// The nodes have forgotten the payment; our own records know it.
func TestAnInvoiceThatNoNodeKnowsAnyMoreIsNotPaidAgain(t *testing.T) {
	b := setup(t, "one", "two").rich(200)
	b.Node.SetSendable(0)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	b.Run(b.Relay)
	pa := b.withdraw(inv.Bolt11)
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "completed")
	b.Nodes[1].Wipe()
	b.Node.SetSendable(1_000_000_000)
	_, err := b.tryWithdraw(inv.Bolt11)
	b.WantRefusal(err, paidaction.CodeDuplicate)
	b.wantSats(149_000)
}

// Our own records of a payment are lost; the nodes know it. One that is under way may yet be taken, and counts as one that was made.
func TestAnInvoiceThatOnlyANodeKnowsIsNotPaidAgain(t *testing.T) {
	for name, act := range map[string]simnode.Act{"paid": simnode.Pays, "under way": simnode.Holds} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two").rich(100)
			inv := b.issue(simnode.Ask{Amount: 70_000, Act: act})
			sent := errors.New("it is sent, and nobody looks further")
			err := b.Nodes[1].Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 5_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error {
				if act == simnode.Holds {
					return sent
				}
				return nil
			})
			if err != nil && !errors.Is(err, sent) {
				t.Fatal(err)
			}
			_, err = b.tryWithdraw(inv.Bolt11)
			b.WantRefusal(err, paidaction.CodeDuplicate)
			// Nor is it wrapped: who has its preimage could take a payer's payment for nothing.
			b.wallet.Same = inv.Bolt11
			zap := b.Pay(b.User("zapper", 0, 0), community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
			if zap.Method == paidaction.P2P {
				t.Error("it is wrapped")
			}
			b.Nodes[1].SetAway(true)
			_, err = b.tryWithdraw(inv.Bolt11) // a check that says "no" on an error: spec 05.36
			b.WantRefusal(err, paidaction.CodeLightningUnavailable)
			b.wantSats(100_000)
		})
	}
}

// An invoice is not called unreadable because no node answers.
func TestAnInvoiceThatNoNodeCanBeAskedAbout(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	b.Nodes[0].SetAway(true)
	_, err := b.tryWithdraw("no invoice at all")
	b.WantRefusal(err, paidaction.CodeInvalidInput)
	b.Nodes[1].SetAway(true)
	_, err = b.tryWithdraw(inv.Bolt11)
	b.WantRefusal(err, paidaction.CodeLightningUnavailable)
	b.wantSats(100_000)
	b.Nodes[0].SetAway(false)
	b.Nodes[1].SetAway(false)
	b.Run(b.Relay)
	b.Await(b.withdraw(inv.Bolt11).ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// Spec 05.36: nodes that read an invoice and do not say whether they have paid it. That is no "no", unless another one says so.
func TestAnInvoiceOfWhichNoNodeSaysWhetherItWasPaid(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	for _, node := range b.Nodes {
		node.FailBefore(simnode.MethodTrack, 1<<30)
	}
	_, err := b.tryWithdraw(inv.Bolt11)
	b.WantRefusal(err, paidaction.CodeLightningUnavailable)
	b.wantSats(100_000)
	b.Nodes[1].FailBefore(simnode.MethodTrack, 0)
	b.withdraw(inv.Bolt11)
	b.WantBalance(ledger.UserSats(b.payer), 45_000)
}

// Spec 05.6: two withdrawals, each of which needs the whole balance.
func TestTheBalanceIsWithdrawnOnce(t *testing.T) {
	b := setup(t).rich(100)
	first, second := b.issue(simnode.Ask{Amount: 95_000}), b.issue(simnode.Ask{Amount: 95_000})
	next := make(chan string, 2)
	next <- first.Bolt11
	next <- second.Bolt11
	made, refused := at(2, func() (*paidaction.PaidAction, error) { return b.tryWithdraw(<-next) })
	if len(made) != 1 || len(refused) != 1 {
		t.Fatalf("%d withdrawals, refused %v", len(made), refused)
	}
	b.WantRefusal(refused[0], paidaction.CodeInsufficientFunds)
	b.Run(b.Relay)
	b.Await(made[0].ID, paidaction.Paid)
	got := b.wallet.Receiver.Receipt(first.Hash).Received + b.wallet.Receiver.Receipt(second.Hash).Received
	if got != 95_000 {
		t.Errorf("%d msat left", got)
	}
	b.wantSats(4_000)
	b.wantSound()
}

// The most that can be withdrawn at a time, with its highest fee, can be; a millisatoshi more is too large (below).
func TestTheLargestWithdrawal(t *testing.T) {
	b := setup(t).rich(1_000_000)
	b.withdraw(b.issue(simnode.Ask{Amount: 999_995_000}).Bolt11)
	b.WantBalance(ledger.UserSats(b.payer), 0)
}

// The limit is of all that can leave: a route can lead through the payee's own node, and the fee be theirs.
func TestAFeeDoesNotExceedTheLimitOfWithdrawals(t *testing.T) {
	b := setup(t).rich(2_000_000)
	withdraw := func(args community.WithdrawArgs) error {
		_, err := b.Try(b.payer, community.KindWithdraw, args, "", "")
		return err
	}
	address, invoice := fmt.Sprintf("%d@holdfast.example", b.author), b.issue(simnode.Ask{Amount: 1000}).Bolt11
	for _, fee := range []int64{1_000_000, 1_999_999, 2_100_000_000_000_000} {
		for _, args := range []community.WithdrawArgs{{To: invoice, MaxFeeSats: fee}, {To: address, Sats: new(int64(1)), MaxFeeSats: fee}} {
			err := withdraw(args)
			b.WantRefusal(err, paidaction.CodeInvalidAmount)
			if !strings.Contains(fmt.Sprint(err), "At most 1000000 sats") {
				t.Errorf("%v", err)
			}
		}
	}
	b.WantBalance(ledger.UserSats(b.payer), 2_000_000_000)
	if err := withdraw(community.WithdrawArgs{To: invoice, MaxFeeSats: 999_999}); err != nil {
		t.Error(err)
	}
}

// What may not be withdrawn is refused with a reason, and changes nothing.
func TestWhatIsNotWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		make func(*bundle) string
		want paidaction.Code
	}{
		"expired": {func(b *bundle) string {
			inv := b.issue(simnode.Ask{Amount: 1000, Expiry: time.Minute})
			b.Clock.Advance(time.Minute)
			return inv.Bolt11
		}, paidaction.CodeInvalidInput},
		"names no amount":  {func(b *bundle) string { return b.issue(simnode.Ask{}).Bolt11 }, paidaction.CodeInvalidAmount},
		"too large":        {func(b *bundle) string { return b.issue(simnode.Ask{Amount: 999_995_001}).Bolt11 }, paidaction.CodeInvalidAmount},
		"blinded":          {func(b *bundle) string { return b.issue(simnode.Ask{Amount: 1000, Blinded: true}).Bolt11 }, paidaction.CodeInvalidInput},
		"without a secret": {func(b *bundle) string { return b.issue(simnode.Ask{Amount: 1000, Secretless: true}).Bolt11 }, paidaction.CodeInvalidInput},
		"with the preimage of zeroes": {func(b *bundle) string {
			return b.issue(simnode.Ask{Amount: 1000, Hash: paidaction.Preimage{}.Hash()}).Bolt11
		}, paidaction.CodeInvalidInput},
		"AMP": {func(b *bundle) string {
			return b.issue(simnode.Ask{Amount: 1000, Features: []paidaction.Feature{{Bit: 31, Known: true}}}).Bolt11
		}, paidaction.CodeInvalidInput},
		"locked for longer than LND allows": {func(b *bundle) string { return b.issue(simnode.Ask{Amount: 1000, CLTVDelta: 2013}).Bolt11 }, paidaction.CodeInvalidInput},
		"good for more than 90 days":        {func(b *bundle) string { return b.issue(simnode.Ask{Amount: 1000, Expiry: 91 * 24 * time.Hour}).Bolt11 }, paidaction.CodeInvalidInput},
		"of another network": {func(*bundle) string {
			return "lnbc20m1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqf"
		}, paidaction.CodeInvalidInput},
		"no invoice at all": {func(*bundle) string { return "send it to me" }, paidaction.CodeInvalidInput},
		"our own hold invoice": {func(b *bundle) string {
			return b.Pay(0, community.KindItemCreate, community.ItemCreateArgs{Title: "held"}, paidaction.Pessimistic).Invoice.Bolt11
		}, paidaction.CodeInvalidInput},
		"our own wrapped invoice": {func(b *bundle) string {
			rich := b.payer
			defer func() { b.payer = rich }()
			b.payer = b.User("zapper", 0, 0)
			return b.zap().Invoice.Bolt11
		}, paidaction.CodeInvalidInput},
		"the receiver's invoice inside of it": {func(b *bundle) string {
			rich := b.payer
			defer func() { b.payer = rich }()
			b.payer = b.User("zapper", 0, 0)
			b.zap()
			return b.wallet.Last().Bolt11
		}, paidaction.CodeInvalidInput},
		"an invoice of our node that the database does not know": {func(b *bundle) string {
			bolt11, err := b.Nodes[0].OpenInvoice(b.Ctx, paidaction.InvoiceRequest{Hash: paidaction.Hash{9}, Amount: 1000, Expiry: time.Hour, Hold: true, CLTVDelta: 80})
			if err != nil {
				b.Fatal(err)
			}
			return bolt11
		}, paidaction.CodeInvalidInput},
		"an invoice of a node of ours that has changed its key": {func(b *bundle) string {
			key, err := b.Nodes[0].PublicKey(b.Ctx)
			if err == nil {
				_, err = b.Pool.Exec(b.Ctx, `INSERT INTO lightning_node (name, public_key, other_key, disabled_reason, changed_at)
					VALUES ('one', 'another', $1, 'it answers with another key', now())`, key)
			}
			if err != nil {
				b.Fatal(err)
			}
			bolt11, err := b.Nodes[0].OpenInvoice(b.Ctx, paidaction.InvoiceRequest{Hash: paidaction.Hash{9}, Amount: 1000, Expiry: time.Hour, Hold: true, CLTVDelta: 80})
			if err != nil {
				b.Fatal(err)
			}
			return bolt11
		}, paidaction.CodeInvalidInput},
		"an address of nobody": {func(*bundle) string { return "99999@holdfast.example" }, paidaction.CodeInvalidAmount},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t).rich(2_000_000)
			to := c.make(b)
			before := b.Count(`SELECT count(*) FROM paid_action`)
			_, err := b.tryWithdraw(to)
			b.WantRefusal(err, c.want)
			b.WantBalance(ledger.UserSats(b.payer), 2_000_000_000)
			if n := b.Count(`SELECT count(*) FROM paid_action`); n != before {
				t.Errorf("%d actions were made", n-before)
			}
		})
	}
}

// A withdrawal that failed may be asked for again, with the same invoice.
func TestAFailedWithdrawalIsTriedAgain(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	b.Run(b.Relay)
	pa := b.withdraw(inv.Bolt11)
	b.Await(pa.ID, paidaction.Failed)
	b.wallet.Receiver.Change(inv.Hash, simnode.Pays)
	again := b.withdraw(inv.Bolt11)
	b.Await(again.ID, paidaction.Paid)
	b.WantState(pa.ID, paidaction.Failed)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSats(49_000)
	b.wantSound()
}

// Spec 01 §1.8.4: what was withdrawn is not wrapped, for ever: the payer's payment would be taken with a preimage we had paid for.
func TestWhatWasWithdrawnIsNotWrapped(t *testing.T) {
	b := setup(t).rich(200)
	inv := b.issue(simnode.Ask{Amount: 70_000})
	b.Run(b.Relay)
	b.Await(b.withdraw(inv.Bolt11).ID, paidaction.Paid)
	b.wallet.Same = inv.Bolt11
	b.payer = b.User("zapper", 0, 0)
	pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
	if pa.Method == paidaction.P2P {
		t.Error("wrapped")
	}
	b.wantSound()
}

// Both at once: the wallet gives an invoice that is being withdrawn in the same moment.
func TestAHashIsWrappedOrWithdrawnNotBoth(t *testing.T) {
	b := setup(t).rich(200)
	zapper := b.User("zapper", 0, 0)
	inv := b.issue(simnode.Ask{Amount: 70_000})
	b.wallet.Same = inv.Bolt11
	var all sync.WaitGroup
	all.Go(func() { _, _ = b.tryWithdraw(inv.Bolt11) })
	all.Go(func() {
		_, _ = b.Try(zapper, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, paidaction.P2P, "")
	})
	all.Wait()
	if n := b.Count(`SELECT (SELECT count(*) FROM relay_payment) + (SELECT count(*) FROM inner_invoice)`); n != 1 {
		t.Errorf("the hash is used %d times", n)
	}
	b.wantSound()
}

// Two people cannot withdraw one invoice either.
func TestOneInvoiceOfTwoPayers(t *testing.T) {
	b := setup(t).rich(100)
	other := b.User("other", 0, 100_000)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	_, err := b.Engine.Pay(b.Ctx, paidaction.Request{Kind: community.KindWithdraw, Args: community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, Caller: enginetest.Caller(other)})
	b.WantRefusal(err, paidaction.CodeDuplicate)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.WantBalance(ledger.UserSats(other), 100_000)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// A part of a withdrawal was settled and another hangs: it counts as paid, and its fee and the rest are booked when it is final.
func TestAWithdrawalWithAHangingPart(t *testing.T) { // spec 05.16c
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Splits})
	pa := b.withdraw(inv.Bolt11)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Forwarded)
	b.WantBalance(ledger.UserSats(b.payer), 45_000)
	if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	b.Await(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSats(49_000)
	b.wantSound()
}

// A node has paid, and the claim that it paid under is lost, as after a restore: another node sends nothing, and would only hear that the receiver wants no more. The payment is
// followed at the node that has it.
func TestAPaymentThatAnotherNodeHasIsFollowedThere(t *testing.T) {
	for name, begin := range map[string]func(*bundle) (*paidaction.PaidAction, string){
		"a withdrawal": func(b *bundle) (*paidaction.PaidAction, string) {
			inv := b.issue(simnode.Ask{Amount: 70_000})
			return b.rich(100).withdraw(inv.Bolt11), inv.Bolt11
		},
		"a forward": func(b *bundle) (*paidaction.PaidAction, string) {
			pa := b.zap()
			b.pay(pa)
			return pa, b.wallet.Last().Bolt11
		},
	} {
		for when, goesOn := range map[string]func(*testing.T, *bundle, int64){
			"claimed by another": func(t *testing.T, b *bundle, _ int64) {
				if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
					t.Fatalf("claimed by the first node: %t, error %v", claimed, err)
				}
			},
			"claimed by another once its invoice has expired": func(t *testing.T, b *bundle, _ int64) {
				b.Clock.Advance(2 * time.Hour)
				if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
					t.Fatalf("claimed by the first node: %t, error %v", claimed, err)
				}
			},
			"not claimed before its invoice has expired": func(_ *testing.T, b *bundle, action int64) {
				b.Clock.Advance(2 * time.Hour)
				for b.Advance(action) == paidaction.Moved {
				}
			},
		} {
			t.Run(name+", "+when, func(t *testing.T) {
				b := setup(t, "one", "two")
				pa, bolt11 := begin(b)
				b.paidByTheSecond(bolt11)
				b.Nodes[1].SetSendable(0) // it has spent that, and need not have it once more
				goesOn(t, b, pa.ID)
				for b.Advance(pa.ID) == paidaction.Moved {
				}
				b.WantState(pa.ID, paidaction.Paid)
				for _, c := range b.Nodes[0].Calls() {
					if c.Method == simnode.MethodPay {
						t.Error("the first node sent it as well")
					}
				}
				b.AwaitStage(pa.ID, "completed")
				b.wantSound()
			})
		}
	}
}

// The node that has paid could not be asked before another one sent, and hears of it after all: the receiver's refusal at the second is not the payment's end.
func TestAPaymentIsNotGivenUpThatAnotherNodeHas(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.paidByTheSecond(inv.Bolt11)
	b.wallet.Receiver.Change(inv.Hash, simnode.Refuses) // what comes a second time
	b.Nodes[1].SetAway(true)
	b.Nodes[0].After(simnode.MethodPay, func(paidaction.Hash) { b.Nodes[1].SetAway(false) })
	if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
		t.Fatalf("claimed by the first node: %t, error %v", claimed, err)
	}
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE node = 'one' AND outcome = 'FAILED'`); n != 1 {
		t.Errorf("%d failures of the first node are noted", n)
	}
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// What an earlier claim may have sent from one node stays with it while another only tries, and goes on at the other once that has paid.
func TestAPinnedPaymentIsLeftToTheNodeThatHasPaid(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_payment SET node = 'one'`); err != nil {
		t.Fatal(err)
	}
	paying, paid := make(chan struct{}), make(chan error)
	go func() {
		began := sync.OnceFunc(func() { close(paying) })
		paid <- b.Nodes[1].Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 3_000, Timeout: time.Minute},
			func(paidaction.PaymentUpdate) error { began(); return nil })
	}()
	<-paying
	step := func() {
		t.Helper()
		b.Clock.Advance(time.Minute)
		if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
			t.Fatalf("claimed by the first node: %t, error %v", claimed, err)
		}
	}
	step()
	if n := b.Count(`SELECT count(*) FROM relay_payment WHERE node = 'one' AND stage = 'incoming'`); n != 1 {
		t.Error("it is not kept for the node that may have been given it")
	}
	if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	if err := <-paid; err != nil {
		t.Fatal(err)
	}
	step()
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// Somebody has paid another invoice of this hash by hand, and more than was to be paid: what is above it is our loss, and nobody else's money.
func TestWhatIsPaidAboveTheAmountIsALoss(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	larger := b.issue(simnode.Ask{Amount: 60_000, Hash: inv.Hash})
	b.paidByTheSecond(larger.Bolt11)
	if _, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); err != nil {
		t.Fatal(err)
	}
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.WantBalance(ledger.RoutingSats, 0)
	b.WantBalance(ledger.LossSats, -10_000)
	b.wantSats(49_000)
	b.WantConserved()
}

// Whoever withdraws to invoices of their own, and lets them hang, has a few places at the nodes and no more, also for a moment.
func TestWithdrawalsThatHangAreBounded(t *testing.T) {
	t.Parallel()
	b := newBundle(t, paidaction.Settings{MaxWithdrawals: 3}, "one").rich(1_000)
	inside := b.Pay(b.User("poster", 0, 0), community.KindItemCreate, community.ItemCreateArgs{Title: "to be paid inside"}, paidaction.Optimistic)
	held := make([]simnode.Issued, 8)
	invoices := make(chan string, len(held))
	for i := range held {
		held[i] = b.issue(simnode.Ask{Amount: 1_000, Act: simnode.Holds})
		invoices <- held[i].Bolt11
	}
	made, refused := at(len(held), func() (*paidaction.PaidAction, error) { return b.tryWithdraw(<-invoices) })
	if len(made) != 3 {
		t.Fatalf("%d are under way: %v", len(made), refused)
	}
	for _, err := range refused {
		b.WantRefusal(err, paidaction.CodeTooManyPending)
	}
	b.WantBalance(ledger.UserSats(b.payer), 1_000_000-3*6_000)
	if _, err := b.tryWithdraw(inside.Invoice.Bolt11); err != nil {
		t.Errorf("inside, where nothing can hang: %v", err)
	}
	rich := b.payer
	b.payer = b.User("another", 0, 100_000)
	b.withdraw(b.issue(simnode.Ask{Amount: 1_000}).Bolt11)
	b.payer = rich
	b.Run(b.Relay)
	hanging := func() (n int64) {
		for _, inv := range held {
			n += int64(b.wallet.Receiver.Receipt(inv.Hash).Held) / 1_000
		}
		return n
	}
	b.await("all three hang", func() bool { return hanging() == 3 })
	_, err := b.tryWithdraw(b.issue(simnode.Ask{Amount: 1_000}).Bolt11)
	b.WantRefusal(err, paidaction.CodeTooManyPending)
	for _, inv := range held {
		_ = b.wallet.Receiver.Cancel(inv.Hash)
	}
	for _, pa := range made {
		b.Await(pa.ID, paidaction.Failed)
	}
	last, err := b.tryWithdraw(b.issue(simnode.Ask{Amount: 1_000}).Bolt11) // it may be paid before this returns
	if err != nil {
		t.Fatal(err)
	}
	b.Await(last.ID, paidaction.Paid)
	b.wantSound()
}
