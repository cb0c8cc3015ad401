package paidaction_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const sat = 1000 // msat

// donate begins a donation of ten sats by invoice.
func donate(w *enginetest.World, user int64, method paidaction.Method) *paidaction.PaidAction {
	w.Helper()
	return w.Pay(user, community.KindDonate, community.DonateArgs{Sats: 10}, method)
}

// zap begins a zap of ten sats on a fresh post of somebody else.
func zap(w *enginetest.World, user int64, method paidaction.Method) *paidaction.PaidAction {
	w.Helper()
	author := w.User("author", 1000*sat, 0)
	return w.Pay(user, community.KindZap, community.ZapArgs{Item: w.Post(author, "a post"), Sats: 10}, method)
}

func pay(w *enginetest.World, pa *paidaction.PaidAction, p simnode.Payment) {
	w.Helper()
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, p); err != nil {
		w.Fatal(err)
	}
}

func TestBalanceIsPaidAtOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 100*sat, 50*sat)
	pa := donate(w, user, "")
	if pa.State != paidaction.Paid || pa.Method != paidaction.FeeCredit || pa.Invoice != nil {
		t.Fatalf("%+v", pa)
	}
	w.WantBalance(ledger.UserCredits(user), 90*sat)
	w.WantBalance(ledger.RewardCredits, 10*sat)

	pa = donate(w, user, paidaction.RewardSats)
	if pa.State != paidaction.Paid || pa.Method != paidaction.RewardSats {
		t.Fatalf("%+v", pa)
	}
	w.WantBalance(ledger.UserSats(user), 40*sat)
	w.WantBalance(ledger.RewardSats, 10*sat)
	w.WantConserved()
}

func TestWalkGoesOnWhereTheBalanceDoesNotSuffice(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 9*sat, 10*sat)
	if pa := donate(w, user, ""); pa.Method != paidaction.RewardSats {
		t.Errorf("paid with %s, want the sats", pa.Method)
	}
	if pa := donate(w, user, ""); pa.Method != paidaction.Pessimistic || pa.State != paidaction.PendingHeld {
		t.Errorf("paid with %s in %s, want an invoice", pa.Method, pa.State)
	}
	_, err := w.Try(user, community.KindDonate, community.DonateArgs{Sats: 10}, paidaction.FeeCredit, "")
	w.WantRefusal(err, paidaction.CodeInsufficientFunds)
	w.WantBalance(ledger.UserCredits(user), 9*sat)
}

func TestOptimisticPaid(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := zap(w, w.User("payer", 0, 0), "")
	if pa.State != paidaction.Pending || pa.Invoice.Hold || pa.Invoice.Amount != 10*sat || pa.Result == nil {
		t.Fatalf("%+v", pa)
	}
	pay(w, pa, simnode.Payment{})
	if p := w.Advance(pa.ID); p != paidaction.Moved {
		t.Fatalf("progress %d", p)
	}
	w.WantState(pa.ID, paidaction.Paid)
	// A second event, and the jobs at the deadlines, find nothing left to do.
	if p := w.Advance(pa.ID); p != paidaction.Done {
		t.Errorf("progress %d", p)
	}
	w.Clock.Advance(time.Hour)
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
	// So it is with one that is not booked with others; what arrived for it is known.
	post := w.Pay(w.User("poster", 0, 0), community.KindItemCreate, community.ItemCreateArgs{Title: "a post"}, paidaction.Optimistic)
	pay(w, post, simnode.Payment{Msat: post.Cost + 1})
	w.Advance(post.ID)
	if got := w.WantState(post.ID, paidaction.Paid); got.Invoice.Received != post.Cost+1 {
		t.Errorf("received %d", got.Invoice.Received)
	}
	w.WantConserved()
}

func TestOptimisticExpiredFailsAndIsRetried(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	pa := zap(w, user, paidaction.Optimistic)
	w.Clock.Advance(10 * time.Minute)
	w.Drain()
	failed := w.WantState(pa.ID, paidaction.Failed)
	if failed.Failure == nil || failed.Failure.Code != paidaction.CodeExpired {
		t.Errorf("failure %v", failed.Failure)
	}
	if n := w.Count(`SELECT count(*) FROM zap WHERE action_id = $1 AND state = 'FAILED'`, pa.ID); n != 1 {
		t.Errorf("%d failed zaps", n)
	}

	again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.State != paidaction.Pending || again.Attempt != 2 || again.Genesis != pa.ID || again.Invoice.Hash == pa.Invoice.Hash {
		t.Fatalf("%+v", again)
	}
	old := w.WantState(pa.ID, paidaction.Retrying)
	if old.Successor == nil || *old.Successor != again.ID {
		t.Errorf("successor %v", old.Successor)
	}
	pay(w, again, simnode.Payment{})
	w.Advance(again.ID)
	w.WantState(again.ID, paidaction.Paid)
	if n := w.Count(`SELECT count(*) FROM zap`); n != 1 {
		t.Errorf("%d zaps after a retry, want the same one", n)
	}
	w.WantConserved()
}

// A retry takes a step of the earlier attempt, too: it is counted, and whoever watches that attempt hears of it.
func TestARetryTellsOfTheEarlierAttempt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	pa := zap(w, user, paidaction.Optimistic)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID); err != nil {
		t.Fatal(err)
	}
	taken, told := map[paidaction.State]int{}, map[int64]bool{}
	w.Engine.Hooks.Moved = func(s paidaction.Step) { taken[s.To]++ }
	w.Engine.Hooks.Changed = func(id int64) { told[id] = true }
	again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if taken[paidaction.Pending] != 1 || taken[paidaction.Retrying] != 1 {
		t.Errorf("counted %v", taken)
	}
	if !told[pa.ID] || !told[again.ID] {
		t.Errorf("told of %v", told)
	}
	if _, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), pa.ID, "", paidaction.Terms{}, nil); err == nil || taken[paidaction.Retrying] != 1 {
		t.Errorf("a second retry: %v, counted %v", err, taken)
	}
}

func TestRetryIsPaidFromTheBalanceThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 5*sat, 20*sat)
	pa := zap(w, user, paidaction.Optimistic)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID); err != nil {
		t.Fatal(err)
	}
	w.WantState(pa.ID, paidaction.Failed)
	again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.State != paidaction.Paid || again.Method != paidaction.RewardSats {
		t.Errorf("%s by %s", again.State, again.Method)
	}
	w.WantBalance(ledger.UserSats(user), 10*sat)
	w.WantConserved()
}

func TestPessimisticIsPerformedBeforeItIsSettled(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	if pa.State != paidaction.PendingHeld || !pa.Invoice.Hold || pa.Result != nil || pa.Secret == "" {
		t.Fatalf("%+v", pa)
	}
	pay(w, pa, simnode.Payment{})
	w.Advance(pa.ID)
	held := w.WantState(pa.ID, paidaction.Held)
	if held.Result == nil {
		t.Error("held, and not performed")
	}
	if n := w.Node.Count(simnode.MethodSettle, pa.Invoice.Hash); n != 0 {
		t.Errorf("%d settle calls before HELD was committed", n)
	}
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
	if n := w.Node.Count(simnode.MethodSettle, pa.Invoice.Hash); n != 1 {
		t.Errorf("%d settle calls", n)
	}
	w.WantBalance(ledger.RewardSats, 10*sat)
	w.WantConserved()
}

// Who brings an action to where a call is owed makes it; what they leave behind is a job for the case that they die.
func TestOneDriverTakesEveryStepThatIsPossible(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	drive := func(id int64, want paidaction.Progress) {
		t.Helper()
		if progress, err := w.Engine.Drive(w.Ctx, id); err != nil || progress != want {
			t.Fatalf("driven to %v, %v, want %v", progress, err, want)
		}
	}
	stands := func(id int64) int64 {
		return w.Count(`SELECT count(*) FROM test_job WHERE action = $1 AND at > $2 AND at <= $3`, id, w.Clock.Now(), w.Clock.Now().Add(2*time.Second))
	}
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	drive(pa.ID, paidaction.Done)
	w.WantState(pa.ID, paidaction.Paid)
	if n := w.Node.Count(simnode.MethodSettle, pa.Invoice.Hash); n != 1 || stands(pa.ID) != 1 {
		t.Errorf("%d settle calls, %d jobs that stand by", n, stands(pa.ID))
	}

	// The driver's call fails, and nobody comes back but the job.
	left := donate(w, 0, "")
	pay(w, left, simnode.Payment{})
	w.Node.FailBefore(simnode.MethodSettle, 1)
	drive(left.ID, paidaction.Owing)
	w.Drain()
	w.WantState(left.ID, paidaction.Held)
	if stands(left.ID) != 1 {
		t.Errorf("%d jobs stand by", stands(left.ID))
	}
	w.Clock.Advance(2 * time.Second)
	w.Drain()
	w.WantState(left.ID, paidaction.Paid)
	drive(left.ID, paidaction.Done)
	w.WantBalance(ledger.RewardSats, 20*sat)
	w.WantConserved()
}

func TestPessimisticExpired(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	w.Clock.Advance(11 * time.Minute)
	w.Node.Tick() // the node is faster than we are
	w.Drain()
	if failed := w.WantState(pa.ID, paidaction.Failed); failed.Failure == nil || failed.Failure.Code != paidaction.CodeExpired {
		t.Errorf("failure %v", failed.Failure)
	}
	if n := w.Count(`SELECT count(*) FROM donation`); n != 0 {
		t.Error("performed without a payment")
	}
}

// spec 05.16: LND expires no accepted hold invoice by the clock, and a payment can land in the last second.
func TestPaymentInTheSecondOfTheExpiryCounts(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	w.Clock.Advance(10*time.Minute - time.Second)
	pay(w, pa, simnode.Payment{})
	w.Clock.Advance(time.Minute)
	w.Node.Tick()
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
	w.WantConserved()
}

func TestRetryOfAPessimisticActionPerformsAfresh(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	c := paidaction.Caller{Secret: pa.Secret}
	if _, err := w.Engine.Cancel(w.Ctx, c, pa.ID); err != nil {
		t.Fatal(err)
	}
	again, err := w.Engine.Retry(w.Ctx, c, pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.Secret != pa.Secret {
		t.Error("the secret of a retry differs from the first attempt's")
	}
	pay(w, again, simnode.Payment{})
	w.Drain()
	w.Advance(again.ID)
	w.Drain()
	w.WantState(again.ID, paidaction.Paid)
	if n := w.Count(`SELECT count(*) FROM donation WHERE state = 'PAID'`); n != 1 {
		t.Errorf("%d donations", n)
	}
	w.WantConserved()
}

func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	c := enginetest.Caller(user)
	pa := donate(w, user, "")
	first := pa.ID
	_, err := w.Engine.Retry(w.Ctx, c, pa.ID, "", paidaction.Terms{}, nil)
	w.WantRefusal(err, paidaction.CodeNotRetryable) // not failed
	_, err = w.Engine.Retry(w.Ctx, enginetest.Caller(w.User("other", 0, 0)), pa.ID, "", paidaction.Terms{}, nil)
	w.WantRefusal(err, paidaction.CodeNotFound) // not theirs
	for attempt := 2; ; attempt++ {
		if _, err := w.Engine.Cancel(w.Ctx, c, pa.ID); err != nil {
			t.Fatal(err)
		}
		again, err := w.Engine.Retry(w.Ctx, c, pa.ID, "", paidaction.Terms{}, nil)
		if attempt == 6 {
			w.WantRefusal(err, paidaction.CodeNotRetryable) // five attempts are enough
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Engine.Retry(w.Ctx, c, pa.ID, "", paidaction.Terms{}, nil)
		w.WantRefusal(err, paidaction.CodeAlreadyRetried)
		if stored := w.Look(again.ID); stored.Genesis != first || stored.Attempt != attempt {
			t.Errorf("attempt %d is stored as number %d of action %d, want %d", attempt, stored.Attempt, stored.Genesis, first)
		}
		pa = again
	}
	for since, refused := range map[time.Duration]bool{time.Hour: false, time.Hour + time.Second: true} {
		late := donate(w, user, "")
		w.Clock.Advance(5 * time.Minute) // the hour counts from the failure
		if _, err := w.Engine.Cancel(w.Ctx, c, late.ID); err != nil {
			t.Fatal(err)
		}
		w.Clock.Advance(since)
		_, err := w.Engine.Retry(w.Ctx, c, late.ID, "", paidaction.Terms{}, nil)
		if refused {
			w.WantRefusal(err, paidaction.CodeNotRetryable) // too long ago
		} else if err != nil {
			t.Error(err)
		}
	}
}

// spec 05.21: of many retries at once exactly one gets the successor.
func TestRetriesAtOnceMakeOneSuccessor(t *testing.T) {
	t.Parallel()
	// By now the balance may suffice: zaps from it are paid together, which no second attempt may be.
	for name, credits := range map[string]int64{"by invoice": 0, "from the balance": 100 * sat} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			user := w.User("payer", credits, 0)
			c := enginetest.Caller(user)
			pa := zap(w, user, paidaction.Optimistic)
			if _, err := w.Engine.Cancel(w.Ctx, c, pa.ID); err != nil {
				t.Fatal(err)
			}
			errs := make(chan error)
			for range 16 {
				go func() { _, err := w.Engine.Retry(w.Ctx, c, pa.ID, "", paidaction.Terms{}, nil); errs <- err }()
			}
			won := 0
			for range 16 {
				if err := <-errs; err == nil {
					won++
				} else {
					w.WantRefusal(err, paidaction.CodeAlreadyRetried)
				}
			}
			if n := w.Count(`SELECT count(*) FROM paid_action WHERE genesis_id = $1`, pa.ID); won != 1 || n != 1 {
				t.Errorf("%d retries won, %d successors", won, n)
			}
			w.WantState(pa.ID, paidaction.Retrying)
			w.WantBalance(ledger.UserCredits(user), max(0, credits-10*sat))
			w.WantConserved()
		})
	}
}

func TestCancelByThePayerAlone(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	pa := zap(w, user, paidaction.Optimistic)
	anonymous := donate(w, 0, "")
	for name, c := range map[string]paidaction.Caller{
		"another user": enginetest.Caller(w.User("other", 0, 0)), "nobody": {}, "a wrong secret": {Secret: anonymous.Secret},
	} {
		_, err := w.Engine.Cancel(w.Ctx, c, pa.ID)
		if w.WantRefusal(err, paidaction.CodeNotFound); t.Failed() {
			t.Fatalf("%s could cancel", name)
		}
	}
	for name, c := range map[string]paidaction.Caller{
		"no secret": {}, "a wrong secret": {Secret: donate(w, 0, "").Secret}, "a known user": enginetest.Caller(user),
	} {
		_, err := w.Engine.Cancel(w.Ctx, c, anonymous.ID)
		if w.WantRefusal(err, paidaction.CodeNotFound); t.Failed() {
			t.Fatalf("%s could cancel the anonymous payer's action", name)
		}
	}
	got, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID)
	if err != nil || got.State != paidaction.Failed || got.Failure.Code != paidaction.CodeCanceled {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = w.Engine.Cancel(w.Ctx, paidaction.Caller{Secret: anonymous.Secret}, anonymous.ID); err != nil || got.State != paidaction.Failed {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = w.Engine.Cancel(w.Ctx, enginetest.Caller(user), donate(w, w.User("rich", 100*sat, 0), "").ID)
	w.WantRefusal(err, paidaction.CodeNotFound)
}

func TestCancelOfAHeldPaymentComesTooLate(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	w.Advance(pa.ID)
	_, err := w.Engine.Cancel(w.Ctx, paidaction.Caller{Secret: pa.Secret}, pa.ID)
	w.WantRefusal(err, paidaction.CodeNotCancelable)
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
}

func TestOpenInvoicesAreBoundedPerPayer(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{MaxPending: 3})
	user := w.User("payer", 0, 0)
	for range 3 {
		donate(w, user, "")
		donate(w, 0, "")
	}
	args := community.DonateArgs{Sats: 10}
	_, err := w.Try(user, community.KindDonate, args, "", "")
	w.WantRefusal(err, paidaction.CodeTooManyPending)
	_, err = w.Try(0, community.KindDonate, args, "", "")
	w.WantRefusal(err, paidaction.CodeTooManyPending)
	// spec 05.12: one anonymous client does not block the others.
	elsewhere := paidaction.Caller{Client: "192.0.2.2"}
	pa, err := w.Engine.Pay(w.Ctx, paidaction.Request{Kind: community.KindDonate, Args: args, Caller: elsewhere})
	if err != nil {
		t.Fatal(err)
	}
	// A new attempt counts as its payer's too, whose address is the one that it is asked for from.
	elsewhere.Secret = pa.Secret
	if _, err := w.Engine.Cancel(w.Ctx, elsewhere, pa.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.Engine.Retry(w.Ctx, paidaction.Caller{Client: enginetest.Caller(0).Client, Secret: pa.Secret}, pa.ID, "", paidaction.Terms{}, nil)
	w.WantRefusal(err, paidaction.CodeTooManyPending)
	if _, err = w.Engine.Retry(w.Ctx, elsewhere, pa.ID, "", paidaction.Terms{}, nil); err != nil {
		t.Error(err)
	}
}

// Nor does anybody evade the bound by asking at once, of two processes: who counts has the others wait.
func TestOpenInvoicesAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"a payer": true, "the anonymous behind an address": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{MaxPending: 1})
			var user int64
			if known {
				user = w.User("payer", 0, 0)
			}
			open := closed(w, "invoice")
			errs := make(chan error, 2)
			for range 2 {
				process, err := paidaction.New(w.Engine.Config)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					_, err := process.Pay(w.Ctx, donation(user, 10, ""))
					errs <- err
				}()
			}
			w.AwaitBlocked(2)
			open()
			one, other := <-errs, <-errs
			if one == nil {
				one, other = other, one
			}
			w.WantRefusal(one, paidaction.CodeTooManyPending)
			if other != nil {
				t.Errorf("neither was let in: %v", other)
			}
		})
	}
}
