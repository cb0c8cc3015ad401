package relay_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(work())
	}
	pgtest.Main(m)
}

// bundle is a world in which somebody zaps a post whose author has a wallet.
type bundle struct {
	*enginetest.World
	author, payer, item int64
	wallet              *enginetest.Wallet
}

func setup(t *testing.T, nodes ...string) *bundle {
	t.Helper()
	t.Parallel()
	if len(nodes) == 0 {
		nodes = []string{"one"}
	}
	return newBundle(t, paidaction.Settings{MaxForwards: 10}, nodes...)
}

func newBundle(t *testing.T, settings paidaction.Settings, nodes ...string) *bundle {
	t.Helper()
	b := &bundle{World: enginetest.NewNodes(t, nodes, settings)}
	b.author, b.payer = b.User("author", 100_000, 0), b.User("payer", 0, 0)
	b.item = b.Post(b.author, "a post")
	b.wallet = b.Wallets.Add(b.author)
	return b
}

// zap begins a wrapped zap of 100 sats.
func (b *bundle) zap() *paidaction.PaidAction {
	b.Helper()
	pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, paidaction.P2P)
	if pa.State != paidaction.PendingHeld || pa.Invoice.Bolt11 == "" || pa.Invoice.Amount != 100_000 {
		b.Fatalf("%+v", pa)
	}
	return pa
}

// pay pays the outer invoice, and has the engine hear of it.
func (b *bundle) pay(pa *paidaction.PaidAction) {
	b.Helper()
	node, err := b.Nodes.Sender(pa.Invoice.Node)
	if err == nil {
		err = node.(*simnode.Node).PayHash(pa.Invoice.Hash, simnode.Payment{})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Advance(pa.ID)
	// A relay that is at work may have taken it on already.
	if n := b.Count(`SELECT count(*) FROM action_history WHERE action_id = $1 AND to_state = $2`, pa.ID, paidaction.Forwarding); n != 1 {
		b.Fatalf("action %d became FORWARDING %d times", pa.ID, n)
	}
}

// wantReceived fails the test unless the receiver got so much, once.
func (b *bundle) wantReceived(pa *paidaction.PaidAction, want paidaction.Msat) {
	b.Helper()
	got := b.wallet.Receiver.Receipt(pa.Invoice.Hash)
	payments := 0
	if want > 0 {
		payments = 1
	}
	if got.Received != want || got.Payments != payments {
		b.Errorf("the receiver got %+v, want %d msat in %d payment", got, want, payments)
	}
}

// wantSound fails the test unless every invariant holds, books and nodes included.
func (b *bundle) wantSound() { b.Helper(); b.WantSound() }

func (b *bundle) outer(pa *paidaction.PaidAction) simnode.Invoice {
	b.Helper()
	node, err := b.Nodes.Sender(pa.Invoice.Node)
	if err != nil {
		b.Fatal(err)
	}
	inv, ok := node.(*simnode.Node).Inspect(pa.Invoice.Hash)
	if !ok {
		b.Fatal("the node does not know the outer invoice")
	}
	return inv
}

func (b *bundle) wantOuter(pa *paidaction.PaidAction, want paidaction.InvoiceState) {
	b.Helper()
	if inv := b.outer(pa); inv.State != want {
		b.Errorf("the payer's payment is %s, want %s", inv.State, want)
	}
}

func TestAWrappedZapPaysTheReceiverDirectly(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	if inner := b.wallet.Last(); pa.Invoice.Hash != inner.Hash {
		t.Error("the outer invoice has another hash than the receiver's")
	}
	rewards, credits := b.Balance(ledger.RewardSats), b.Balance(ledger.UserCredits(b.author))
	b.pay(pa)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)

	b.wantReceived(pa, 70_000)
	b.wantOuter(pa, paidaction.InvoiceSettled)
	b.AwaitStage(pa.ID, "completed")
	b.WantBalance(ledger.UserCredits(b.author), credits)
	// The sybil fee of 30 sats, less the routing budget of 3; of that 1 was spent.
	b.WantBalance(ledger.RewardSats, rewards+27_000+2_000)
	b.WantBalance(ledger.RoutingSats, 0)
	if n := b.Count(`SELECT sum(CASE WHEN to_account = 0 THEN msat ELSE -msat END) FROM posting WHERE (from_account = 0 OR to_account = 0) AND action_id = $1`, pa.ID); n != 71_000-100_000 {
		t.Errorf("our nodes have %d msat more by the books", -n)
	}
	b.wantSound()
}

func TestAnAnonymousPayersWrappedZapIsPerformedOnceItIsHeld(t *testing.T) {
	b := setup(t)
	b.payer = 0
	pa := b.zap()
	if pa.Result != nil {
		t.Error("performed before anything was paid")
	}
	b.pay(pa)
	if b.Look(pa.ID).Result == nil {
		t.Error("held, and not performed")
	}
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.wantSound()
}

// Of forwardees and author the one with the largest share is paid directly, the others in credits.
func TestTheLargestShareIsPaidDirectly(t *testing.T) {
	b := setup(t)
	large, small := b.User("large", 0, 0), b.User("small", 0, 0)
	b.item = b.Post(b.author, "another post", community.Forward{User: large, Pct: 60}, community.Forward{User: small, Pct: 30})
	b.wallet = b.Wallets.Add(large)
	b.Wallets.Add(small)
	before := b.Balance(ledger.UserCredits(b.author))
	pa := b.zap()
	b.pay(pa)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 42_000)
	b.WantBalance(ledger.UserCredits(large), 0)
	b.WantBalance(ledger.UserCredits(small), 21_000)
	b.WantBalance(ledger.UserCredits(b.author), before+7_000)
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// Who forwards all to somebody after their own wallet has issued the invoice gives away no more than what is people's: the fee stays the fee.
func TestForwardsThatAreChangedMeanwhileDoNotTakeTheFee(t *testing.T) {
	b := setup(t)
	other := b.User("other", 0, 0)
	pa := b.zap()
	b.Pay(b.author, community.KindItemUpdate, community.ItemUpdateArgs{Item: b.item, Forwards: []community.Forward{{User: other, Pct: 100}}}, "")
	rewards := b.Balance(ledger.RewardSats)
	b.pay(pa)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.AwaitStage(pa.ID, "completed")
	b.WantBalance(ledger.UserCredits(other), 0)
	b.WantBalance(ledger.RewardSats, rewards+27_000+2_000)
	b.wantSound()
}

// Whose share has grown since their wallet issued the invoice gets the rest as credits: what is people's does not become a fee.
func TestForwardsThatAreChangedMeanwhileLeaveNothingOfThePeoplesToTheFee(t *testing.T) {
	for name, c := range map[string]struct {
		changed          []int // percentages of the friend; none: nothing is forwarded any more
		author, friend   paidaction.Msat
		authorHasAWallet bool
	}{
		"the author is paid, and forwards nothing any more": {nil, 42_000, 0, true},
		"the author is paid, and forwards less":             {[]int{10}, 35_000, 7_000, true},
		"the author is paid, and forwards more":             {[]int{90}, 0, 42_000, true},
		"the friend is paid, and all is forwarded":          {[]int{100}, 0, 28_000, false},
		"the friend is paid, and nothing is forwarded":      {nil, 28_000, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			friend := b.User("friend", 0, 0)
			direct := paidaction.Msat(28_000)
			if !c.authorHasAWallet {
				b.author = b.User("another", 10_000, 0)
				b.wallet, direct = b.Wallets.Add(friend), 42_000
			}
			b.item = b.Post(b.author, "another post", community.Forward{User: friend, Pct: 60})
			pa := b.zap()
			forwards := []community.Forward{}
			for _, pct := range c.changed {
				forwards = append(forwards, community.Forward{User: friend, Pct: pct})
			}
			b.Pay(b.author, community.KindItemUpdate, community.ItemUpdateArgs{Item: b.item, Forwards: forwards}, "")
			before, rewards := b.Balance(ledger.UserCredits(b.author)), b.Balance(ledger.RewardSats)
			b.pay(pa)
			b.Run(b.Relay)
			b.Await(pa.ID, paidaction.Paid)
			b.wantReceived(pa, direct)
			b.AwaitStage(pa.ID, "completed")
			b.WantBalance(ledger.UserCredits(b.author), before+int64(c.author))
			b.WantBalance(ledger.UserCredits(friend), int64(c.friend))
			b.WantBalance(ledger.RewardSats, rewards+27_000+2_000)
			b.wantSound()
		})
	}
}

// What is left of a price of two sats after the wallet's whole sat and the routing budget is nothing: nobody is promised it, and the zap is booked.
func TestForwardsThatAreChangedMeanwhileShareNoMoreThanThereIs(t *testing.T) {
	b := setup(t)
	other := b.User("other", 0, 0)
	b.wallet.Ask.Truncate = true
	b.Node.SetRoute(simnode.Route{Fee: 0, Blocks: 80})
	pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 2}, paidaction.P2P)
	b.Pay(b.author, community.KindItemUpdate, community.ItemUpdateArgs{Item: b.item, Forwards: []community.Forward{{User: other, Pct: 100}}}, "")
	b.pay(pa)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 1_000)
	b.AwaitStage(pa.ID, "completed")
	b.WantBalance(ledger.UserCredits(other), 0)
	b.wantSound()
}

// The routing budget never takes what others were promised: spec 05.10.
func TestASmallZapLeavesNoShareNegative(t *testing.T) {
	b := setup(t)
	other := b.User("other", 0, 0)
	b.item = b.Post(b.author, "another post", community.Forward{User: other, Pct: 50})
	b.Node.SetRoute(simnode.Route{Fee: 0, Blocks: 80})
	b.wallet = b.Wallets.Add(other)
	b.wallet.Ask.Amount = 0
	before := b.Balance(ledger.UserCredits(b.author))
	pa, err := b.Try(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 3}, paidaction.P2P, "")
	if err != nil {
		t.Fatal(err)
	}
	b.pay(pa)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "completed")
	b.WantBalance(ledger.UserCredits(b.author), before+1_050) // half of 2,100, though a sat for routing would have left less
	b.wantSound()
}

// The routing budget comes out of the fee also where nobody has the author's part: the founder gets their share of what is left of the fee.
func TestTheRoutingBudgetComesOutOfTheFeeOfWhatTheAnonymousWrote(t *testing.T) {
	for name, c := range map[string]struct{ sats, direct, founder, rewards int64 }{
		// Of 100 sats 30 are the fee, and 3 of these are for routing, which takes 1. Half of the 70 is the friend's, and half is the anonymous author's.
		"of a zap":             {100, 35_000, 27_000 * 70 / 100, 27_000*30/100 + 35_000 + 2_000},
		"of one of three sats": {3, 1_050, 0, 950}, // a sat for routing is more than the fee of 900 msat
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			friend, founder := b.User("friend", 0, 0), b.User("founder", 0, 0)
			if err := db.New(b.Pool).InsertTerritory(b.Ctx, db.InsertTerritoryParams{Name: "bitcoin", FounderID: founder, BaseCostMsat: 1000,
				ReplyCostMsat: 1000, CreatedAt: b.Clock.Now()}); err != nil {
				t.Fatal(err)
			}
			post := b.Pay(0, community.KindItemCreate, community.ItemCreateArgs{Title: "by nobody", Territory: "bitcoin",
				Forwards: []community.Forward{{User: friend, Pct: 50}}}, "")
			if err := b.Node.PayBolt11(post.Invoice.Bolt11, simnode.Payment{}); err != nil {
				t.Fatal(err)
			}
			b.Advance(post.ID)
			b.Drain()
			b.item, b.wallet = b.Item(b.WantState(post.ID, paidaction.Paid)), b.Wallets.Add(friend)
			revenue, rewards := b.Balance(ledger.UserSats(founder)), b.Balance(ledger.RewardSats)
			pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: c.sats}, paidaction.P2P)
			b.pay(pa)
			b.Run(b.Relay)
			b.Await(pa.ID, paidaction.Paid)
			b.wantReceived(pa, paidaction.Msat(c.direct))
			b.AwaitStage(pa.ID, "completed")
			b.WantBalance(ledger.UserSats(founder), revenue+c.founder)
			b.WantBalance(ledger.RewardSats, rewards+c.rewards)
			b.wantSound()
		})
	}
}

func TestAWalletThatTruncatesToWholeSatsIsPaid(t *testing.T) { // spec 05.11
	b := setup(t)
	b.wallet.Ask.Truncate = true
	pa, err := b.Try(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 101}, paidaction.P2P, "")
	if err != nil {
		t.Fatal(err)
	}
	b.pay(pa)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000) // of 70,700
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

func TestWhoseBalanceSufficesPaysFromIt(t *testing.T) {
	b := setup(t)
	b.payer = b.User("rich", 1_000_000, 0)
	pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
	if pa.Method != paidaction.FeeCredit || len(b.wallet.Issued) != 0 {
		t.Errorf("%s, and %d invoices were asked for", pa.Method, len(b.wallet.Issued))
	}
}

// Without a wallet that gives an invoice the next method is taken.
func TestAWalletThatGivesNothingFallsBack(t *testing.T) {
	b := setup(t)
	b.wallet.Err = errors.New("the wallet is asleep")
	pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
	if pa.Method != paidaction.Optimistic {
		t.Errorf("%s", pa.Method)
	}
	second := b.Wallets.Add(b.author)
	pa = b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
	if pa.Method != paidaction.P2P || len(second.Issued) != 1 {
		t.Errorf("%s", pa.Method)
	}
	if b.wallet.Said[0] == nil {
		t.Error("the wallet's owner was told nothing")
	}
}

// Wallets of two receivers that do not answer leave a request the time to be paid here.
func TestWalletsOfSeveralReceiversThatHangFallBack(t *testing.T) {
	b := setup(t)
	b.wallet.Hangs = true
	friend := b.User("friend", 0, 0)
	b.Wallets.Add(friend).Hangs = true
	post := b.Item(b.Pay(b.author, community.KindItemCreate, community.ItemCreateArgs{Title: "shared", Forwards: []community.Forward{{User: friend, Pct: 50}}}, paidaction.FeeCredit))
	b.Engine.Settings.SearchTimeout = time.Second
	for payer, want := range map[int64]paidaction.Method{b.payer: paidaction.Optimistic, 0: paidaction.Pessimistic} {
		request, end := context.WithTimeout(b.Ctx, 30*time.Second)
		pa, err := b.Engine.Pay(request, paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: post, Sats: 100}, Caller: enginetest.Caller(payer)})
		if err != nil || pa.Method != want {
			t.Errorf("payer %d: %+v, %v", payer, pa, err)
		}
		end()
	}
}

// No wallet is asked for what none could ask for within the rules, nor blamed for that.
func TestAShareThatCannotBeWrappedAsksNoWallet(t *testing.T) {
	b := setup(t)
	friend := b.User("friend", 0, 0)
	other := b.Wallets.Add(friend)
	post := b.Item(b.Pay(b.author, community.KindItemCreate, community.ItemCreateArgs{Title: "shared", Forwards: []community.Forward{{User: friend, Pct: 50}}}, paidaction.FeeCredit))
	if pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: post, Sats: 1}, ""); pa.Method != paidaction.Optimistic {
		t.Errorf("a zap of a sat is paid by %s", pa.Method)
	}
	if pa := b.Pay(0, community.KindReceive, community.ReceiveArgs{User: b.author, Msat: 800_000_000}, ""); pa.Method != paidaction.Pessimistic {
		t.Errorf("800,000 sats are received by %s", pa.Method)
	}
	for _, wallet := range []*enginetest.Wallet{b.wallet, other} {
		if len(wallet.Issued)+len(wallet.Said) > 0 {
			t.Errorf("the wallet of %d issued %d invoices, and was told %v", wallet.Owner, len(wallet.Issued), wallet.Said)
		}
	}
}

// A wallet gives the hash of an invoice of ours, which its owner was given to pay: whoever knows our preimage would be paid for nothing. It is not wrapped.
func TestAWalletThatGivesAHashOfOursFallsBack(t *testing.T) {
	b := setup(t)
	ours := b.Pay(b.author, community.KindItemCreate, community.ItemCreateArgs{Title: "held"}, paidaction.Pessimistic)
	b.wallet.Ask.Hash = ours.Invoice.Hash
	if pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, ""); pa.Method != paidaction.Optimistic {
		t.Errorf("%s", pa.Method)
	}
	if said, ok := paidaction.AsRefusal(b.wallet.Said[0]); !ok || said.Code != "OURS" {
		t.Errorf("the wallet's owner was told %v", b.wallet.Said[0])
	}
}

func TestAWrappedInvoiceThatIsNotPaidFails(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.Clock.Advance(11 * time.Minute)
	b.Node.Tick()
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Failed)
	b.wantReceived(pa, 0)
	b.wantSound()
}

// The owner of a wallet reads which rule its invoice breaks, and no figure of what the payer pays beside (spec 05.16).
func TestAWalletsOwnerIsToldTheRule(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Amount = 1 // more than was asked for
	if pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, ""); pa.Method == paidaction.P2P {
		t.Error("an invoice for more than the share was wrapped")
	}
	said, ok := paidaction.AsRefusal(b.wallet.Said[0])
	if !ok || said.Code != "ABOVE_REQUEST" || strings.ContainsAny(said.Message, "0123456789") {
		t.Errorf("%v", b.wallet.Said[0])
	}
	b.wallet.Same = "lnsim1whatever" // no invoice
	if pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, ""); pa.Method == paidaction.P2P {
		t.Error("what is no invoice was wrapped")
	}
	b.WantRefusal(b.wallet.Said[1], "WALLET_BAD_INVOICE")
}

// Spec 05.16i: payer and receiver are customers of one custodian, who pays the receiver by the hash and leaves us out. Our invoice
// is never paid, and that is what the payer is told; nothing leaves, and nothing is booked.
func TestACustodianWhoPaysByTheHashLeavesUsOut(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	custodian := b.Network.AddNode("custodian")
	err := custodian.Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: b.wallet.Last().Bolt11, FeeLimit: 10_000, Timeout: 30 * time.Second},
		func(paidaction.PaymentUpdate) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	b.wantReceived(pa, 70_000)
	b.Run(b.Relay)
	if p := b.Advance(pa.ID); p != paidaction.Waiting {
		t.Errorf("progress %d", p)
	}
	b.Clock.Advance(11 * time.Minute)
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	failed := b.WantState(pa.ID, paidaction.Failed)
	if failed.Failure.Code != paidaction.CodeExpired || !strings.Contains(failed.Failure.Message, "not paid in time") {
		t.Errorf("%v", failed.Failure)
	}
	if n := b.Count(`SELECT (SELECT count(*) FROM relay_payment) + (SELECT count(*) FROM posting WHERE action_id = $1)`, pa.ID); n != 0 {
		t.Errorf("%d payments and postings for what was not paid to us", n)
	}
	b.wantReceived(pa, 70_000)
	b.wantSound()
}

func TestAPaymentThatFailsForGoodGoesBack(t *testing.T) {
	for name, c := range map[string]struct {
		act  simnode.Act
		sent int // by each node that could fare better
	}{"refused": {simnode.Refuses, 1}, "no route": {simnode.Unreachable, 2}} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two")
			pa := b.zap()
			b.wallet.Receiver.Change(pa.Invoice.Hash, c.act)
			b.pay(pa)
			b.Run(b.Relay)
			failed := b.Await(pa.ID, paidaction.Failed)
			if failed.Failure.Code != paidaction.CodePaymentFailed {
				t.Errorf("%v", failed.Failure)
			}
			b.wantSent(pa.Invoice.Hash, c.sent)
			b.wantOuter(pa, paidaction.InvoiceCanceled)
			b.wantReceived(pa, 0)
			if n := b.Count(`SELECT count(*) FROM posting WHERE action_id = $1`, pa.ID); n != 0 {
				t.Errorf("%d postings for what was not paid", n)
			}
			b.wantSound()
		})
	}
}

// Spec 04 §4.2: a node that is down is known by the key it had; the other one carries on. If none can be asked, nothing is promised.
func TestANodeThatIsDownHoldsUpNoOther(t *testing.T) {
	b := setup(t, "one", "two")
	for _, node := range b.Nodes {
		key, err := node.PublicKey(b.Ctx)
		if err == nil {
			_, err = b.Pool.Exec(b.Ctx, `INSERT INTO lightning_node (name, public_key, changed_at) VALUES ($1, $2, now())`, node.Name(), key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.Nodes[1].SetAway(true)
	pa := b.zap()
	b.pay(pa)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)

	b.Nodes[0].SetAway(true)
	_, err := b.Try(b.User("rich", 0, 100_000), community.KindWithdraw, community.WithdrawArgs{To: b.wallet.Receiver.Issue(simnode.Ask{Amount: 50_000}).Bolt11, MaxFeeSats: 5}, "", "")
	if err == nil {
		t.Error("a withdrawal is accepted though no node can be asked")
	}
	b.Nodes[0].SetAway(false)
	b.Nodes[1].SetAway(false)
	b.wantSound()
}

// Nobody can let the nodes rest by naming a receiver whom they do not reach, or an amount that they do not have.
func TestAPaymentWithoutARouteLetsNoNodeRest(t *testing.T) {
	t.Parallel()
	for failure, want := range map[paidaction.FailureReason]relay.Blame{"NO_ROUTE": relay.ThePayment, "TIMEOUT": relay.ThePayment,
		"INCORRECT_PAYMENT_DETAILS": relay.ThePayment, "INSUFFICIENT_BALANCE": relay.ThePayment, "CANCELED": relay.TheNode, "ERROR": relay.ThePayment} {
		if got := relay.BlameOf(paidaction.PaymentUpdate{State: paidaction.PaymentFailed, Failure: failure}); got != want {
			t.Errorf("%s: %v is blamed, want %v", failure, got, want)
		}
	}
}

// Spec 01 §1.7: the next attempt goes through the receiver's next wallet, and by credits when none is left.
func TestTheNextAttemptIsPreparedThroughTheNextWallet(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	second := b.Wallets.Add(b.author)
	b.Wallets.Counting = func(wallet, genesis int64) {
		if n := b.Count(`SELECT count(*) FROM relay_payment WHERE action_id = $1 AND stage = 'in_work'`, genesis); wallet != b.wallet.ID || n != 1 {
			t.Error("whoever sees that the payment failed may not see yet that this counts against the wallet")
		}
	}
	b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	b.Drain()
	pa = b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor)
	if pa.Attempt != 2 || pa.State != paidaction.PendingHeld || len(second.Issued) != 1 {
		t.Fatalf("attempt %d is %s", pa.Attempt, pa.State)
	}
	b.wallet = second
	b.pay(pa)
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// The next attempt of an anonymous payer counts among the open invoices of the address that the first one came from (spec 05.12).
func TestTheNextAttemptOfAnAnonymousPayerIsTheirs(t *testing.T) {
	b := setup(t)
	b.payer = 0
	b.wallet.Ask.Act = simnode.Refuses
	b.Wallets.Add(b.author)
	b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	b.Drain()
	next := *b.WantState(pa.ID, paidaction.Retrying).Successor
	if n := b.Count(`SELECT count(*) FROM paid_action JOIN paid_action AS first USING (client_hash) WHERE paid_action.id = $1 AND first.id = $2`, next, pa.ID); n != 1 {
		t.Error("it counts as nobody's")
	}
}

// Spec 01 §1.7 and 02 §2.1: the next attempt is paid from the balance where that suffices now, but for a payer who chose to pay otherwise.
func TestTheNextAttemptTakesFromNoBalanceThatWasNotNamed(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	b.Run(b.Relay)
	for name, c := range map[string]struct {
		chosen paidaction.Method
		want   paidaction.Flow
	}{
		"named": {"", paidaction.FlowBalance}, "not_named": {paidaction.P2P, paidaction.FlowWrapped},
	} {
		payer := b.User(name, 0, 0)
		b.Wallets.Add(b.author)
		pa := b.Pay(payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, c.chosen)
		if pa.Flow != paidaction.FlowWrapped {
			t.Fatalf("%s: paid by %s", name, pa.Method)
		}
		b.Fund(payer, 100_000, 0)
		b.pay(pa)
		b.Await(pa.ID, paidaction.Failed)
		b.Drain()
		if next := b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor); next.Flow != c.want {
			t.Errorf("%s: the next attempt is %s by %s", name, next.State, next.Method)
		}
	}
	b.wantSound()
}

// Nor where no wallet is left that it could be paid to directly: then it waits for the payment of an invoice.
func TestTheNextAttemptOfWhoChoseTakesFromNoBalance(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	pa := b.zap()
	b.pay(pa)
	stop := b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Failed)
	stop()
	b.Fund(b.payer, 100_000, 100_000)
	b.wallet.Err = errors.New("the wallet is asleep")
	b.Drain()
	if next := b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor); next.State.Terminal() || next.Invoice.Bolt11 == "" {
		t.Errorf("the next attempt is %s by %s", next.State, next.Method)
	}
	b.WantBalance(ledger.UserCredits(b.payer), 100_000)
	b.WantBalance(ledger.UserSats(b.payer), 100_000)
}

// A node that is away for a moment is no reason to give the payer's zap up: the job that prepares the next attempt comes again.
func TestTheNextAttemptIsPreparedOnceTheNodeIsBack(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	b.Node.SetAway(true)
	var err error
	for more := true; more && err == nil; {
		more, err = b.Work()
	}
	b.WantRefusal(err, paidaction.CodeLightningUnavailable)
	b.Node.SetAway(false)
	b.Drain()
	if next := b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor); next.Attempt != 2 || next.State != paidaction.PendingHeld {
		t.Errorf("attempt %d is %s", next.Attempt, next.State)
	}
}

func TestWithoutAWalletThatPaysTheNextAttemptGivesCredits(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	b.Run(b.Relay)
	pa := b.zap()
	for range 2 {
		b.pay(pa)
		b.Await(pa.ID, paidaction.Failed)
		b.Drain()
		pa = b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor)
	}
	if pa.Method != paidaction.Optimistic || pa.State != paidaction.Pending {
		t.Fatalf("%s is %s", pa.Method, pa.State)
	}
	b.wantSound()
}

// full fails the test unless the receiver's wallet takes no further zap of this payer.
func (b *bundle) full() {
	b.Helper()
	_, err := b.Try(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, paidaction.P2P, "")
	b.WantRefusal(err, paidaction.CodeMethodUnavailable)
	if refusal, _ := paidaction.AsRefusal(err); !strings.Contains(refusal.Message, "receiver") {
		b.Errorf("it is for want of a wallet of the receiver's, and the payer is told: %s", refusal.Message)
	}
}

// A wallet is not flooded: of its invoices so many wait inside of ours, and one more as soon as one of them is paid or given up.
func TestAWalletIsNotFlooded(t *testing.T) {
	t.Parallel()
	b := newBundle(t, paidaction.Settings{MaxForwards: 10, MaxWalletPending: 2}, "one")
	by := func(name string) {
		b.payer = b.User(name, 0, 0)
	}
	paid := b.zap()
	by("second")
	given, giver := b.zap(), b.payer
	by("third")
	b.full()
	b.pay(paid)
	b.zap()
	by("fourth")
	b.full()
	if _, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(giver), given.ID); err != nil {
		t.Fatal(err)
	}
	b.zap()
	by("fifth")
	b.full()
	// That of another receiver has nothing to do with it.
	other := b.User("other", 100_000, 0)
	b.item, b.wallet = b.Post(other, "another post"), b.Wallets.Add(other)
	b.zap()
}
