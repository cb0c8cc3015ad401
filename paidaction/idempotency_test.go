package paidaction_test

import (
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// spec 01 §1.8.8.
func TestSameKeySameAction(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 100*sat, 0)
	args := community.DonateArgs{Sats: 10}
	for _, method := range []paidaction.Method{paidaction.FeeCredit, paidaction.Pessimistic} {
		first, err := w.Try(user, community.KindDonate, args, method, "key "+string(method))
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.Try(user, community.KindDonate, args, method, "key "+string(method))
		if err != nil || again.ID != first.ID {
			t.Errorf("%+v, %v", again, err)
		}
	}
	w.WantBalance(ledger.UserCredits(user), 90*sat)
	// Another person's key is another key.
	other := w.User("other", 100*sat, 0)
	pa, err := w.Try(other, community.KindDonate, args, "", "key FEE_CREDIT")
	if err != nil || *pa.Payer != other {
		t.Errorf("%+v, %v", pa, err)
	}
	for name, r := range map[string]paidaction.Request{
		"other arguments": {Kind: community.KindDonate, Args: community.DonateArgs{Sats: 11}, Terms: paidaction.Terms{Method: paidaction.FeeCredit}},
		"another method":  {Kind: community.KindDonate, Args: args},
		"another kind":    {Kind: community.KindBuyCredits, Args: community.BuyCreditsArgs{Credits: 10}},
	} {
		r.Key, r.Caller = "key FEE_CREDIT", enginetest.Caller(user)
		_, err := w.Engine.Pay(w.Ctx, r)
		if w.WantRefusal(err, paidaction.CodeIdempotencyConflict); t.Failed() {
			t.Fatal(name)
		}
	}
	w.WantBalance(ledger.UserCredits(user), 90*sat)
	zapped := community.ZapArgs{Item: w.Post(other, "a post"), Sats: 10}
	if _, err := w.Try(user, community.KindZap, zapped, paidaction.FeeCredit, "zap"); err != nil {
		t.Fatal(err)
	}
	_, err = w.Try(user, community.KindDownZap, zapped, paidaction.FeeCredit, "zap") // what tells it from the zap is its kind alone
	w.WantRefusal(err, paidaction.CodeIdempotencyConflict)
	// Bytes count, not characters.
	if _, err := w.Try(user, community.KindDonate, args, "", strings.Repeat("ü", 127)+"k"); err != nil {
		t.Errorf("a key of 255 bytes: %v", err)
	}
	for _, long := range []string{strings.Repeat("k", 256), strings.Repeat("ü", 128)} {
		_, err = w.Try(user, community.KindDonate, args, "", long)
		w.WantRefusal(err, paidaction.CodeInvalidInput)
	}
}

func TestAnonymousKeyGivesTheSecretAgain(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	args, key := community.DonateArgs{Sats: 10}, "f47ac10b-58cc-4372-a567-0e02b2c3d479"
	first, err := w.Try(0, community.KindDonate, args, "", key)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.Try(0, community.KindDonate, args, "", key)
	if err != nil || again.ID != first.ID || again.Secret != first.Secret || again.Invoice.Bolt11 != first.Invoice.Bolt11 {
		t.Errorf("%+v, %v", again, err)
	}
	// 128 random bits are 22 characters in base64; fewer can be guessed, and with the key comes the secret.
	const drawn = "Bf9pVpXq0k2m7Rz4sT1wYA"
	if _, err := w.Try(0, community.KindDonate, args, "", drawn); err != nil {
		t.Errorf("a key of 128 bits: %v", err)
	}
	_, err = w.Try(0, community.KindDonate, args, "", drawn[1:])
	w.WantRefusal(err, paidaction.CodeInvalidInput)
}

// The answer to a repeated request is what was done then, even where the same request would be refused now.
func TestReplayIsNotRefusedForWhatItDidItself(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", sat, 0)
	args := community.ItemCreateArgs{Title: "once"}
	first, err := w.Try(user, community.KindItemCreate, args, "", "key")
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.Try(user, community.KindItemCreate, args, "", "key")
	if err != nil || again.ID != first.ID {
		t.Errorf("%+v, %v", again, err)
	}
}

// A replay issues the invoice that the first call could not.
func TestReplayIssuesTheMissingInvoice(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	args := community.DonateArgs{Sats: 10}
	// The first call tries twice: the second time as the replay that it is itself.
	w.Node.FailBefore(simnode.MethodOpen, 2)
	w.Node.FailBefore(simnode.MethodLookup, 2)
	_, err := w.Try(user, community.KindDonate, args, "", "key")
	w.WantRefusal(err, paidaction.CodeLightningUnavailable)
	pa, err := w.Try(user, community.KindDonate, args, "", "key")
	if err != nil || pa.Invoice.Bolt11 == "" {
		t.Errorf("%+v, %v", pa, err)
	}
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != 1 {
		t.Errorf("%d actions", n)
	}
}

func TestSameKeyFromManyAtOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 1000*sat, 0)
	args := community.DonateArgs{Sats: 10}
	type answer struct {
		pa  *paidaction.PaidAction
		err error
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		answers := make(chan answer)
		for range 32 {
			go func() {
				pa, err := w.Try(user, community.KindDonate, args, "", key)
				answers <- answer{pa, err}
			}()
		}
		ids := map[int64]bool{}
		for range 32 {
			a := <-answers
			if a.err != nil {
				t.Fatal(a.err)
			}
			ids[a.pa.ID] = true
		}
		if len(ids) != 1 {
			t.Errorf("%d actions for one key", len(ids))
		}
	}
	w.WantBalance(ledger.UserCredits(user), 1000*sat-4*10*sat)
	w.WantConserved()
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// A retry whose answer was lost is asked for again under its key, whatever has become of it meanwhile.
func TestSameKeySameAttempt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	c := enginetest.Caller(user)
	failed := func(key string) *paidaction.PaidAction {
		pa, err := w.Engine.Pay(w.Ctx, donation(user, 10, key))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Engine.Cancel(w.Ctx, c, pa.ID); err != nil {
			t.Fatal(err)
		}
		return pa
	}
	first, other := failed("asked first"), failed("")
	again, err := w.Engine.Retry(w.Ctx, c, first.ID, "again", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	same := func(when string, state paidaction.State) {
		t.Helper()
		pa, err := w.Engine.Retry(w.Ctx, c, first.ID, "again", paidaction.Terms{}, nil)
		if err != nil || pa.ID != again.ID || pa.State != state {
			t.Errorf("%s: %+v, %v", when, pa, err)
		}
	}
	same("at once", paidaction.PendingHeld)
	for what, ask := range map[string]func() (*paidaction.PaidAction, error){
		"without a key": func() (*paidaction.PaidAction, error) {
			return w.Engine.Retry(w.Ctx, c, first.ID, "", paidaction.Terms{}, nil)
		},
		"with another key": func() (*paidaction.PaidAction, error) {
			return w.Engine.Retry(w.Ctx, c, first.ID, "another", paidaction.Terms{}, nil)
		},
	} {
		_, err := ask()
		if w.WantRefusal(err, paidaction.CodeAlreadyRetried); t.Failed() {
			t.Fatal(what)
		}
	}
	for what, ask := range map[string]func() (*paidaction.PaidAction, error){
		"another action": func() (*paidaction.PaidAction, error) {
			return w.Engine.Retry(w.Ctx, c, other.ID, "again", paidaction.Terms{}, nil)
		},
		"the key of a first": func() (*paidaction.PaidAction, error) {
			return w.Engine.Retry(w.Ctx, c, other.ID, "asked first", paidaction.Terms{}, nil)
		},
		"a first of that key": func() (*paidaction.PaidAction, error) { return w.Engine.Pay(w.Ctx, donation(user, 10, "again")) },
		"another method": func() (*paidaction.PaidAction, error) {
			return w.Engine.Retry(w.Ctx, c, first.ID, "again", paidaction.Terms{Method: paidaction.Pessimistic}, nil)
		},
	} {
		_, err := ask()
		if w.WantRefusal(err, paidaction.CodeIdempotencyConflict); t.Failed() {
			t.Fatal(what)
		}
	}
	w.WantState(other.ID, paidaction.Failed)
	if err := w.Node.PayHash(again.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(again.ID)
	w.Drain()
	same("when it is paid", paidaction.Paid)
	w.Clock.Advance(2 * time.Hour)
	same("after the retry window", paidaction.Paid)
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != 3 {
		t.Errorf("%d actions, want the two first attempts and one retry", n)
	}
	_, err = w.Engine.Retry(w.Ctx, c, other.ID, strings.Repeat("k", 256), paidaction.Terms{}, nil)
	w.WantRefusal(err, paidaction.CodeInvalidInput)
	anonymous, err := w.Try(0, community.KindDonate, community.DonateArgs{Sats: 10}, "", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Engine.Retry(w.Ctx, paidaction.Caller{Secret: anonymous.Secret}, anonymous.ID, "short", paidaction.Terms{}, nil)
	w.WantRefusal(err, paidaction.CodeInvalidInput)
}

// spec 05.21: of retries at once under one key, each answers with the one attempt.
func TestRetriesAtOnceUnderOneKeyAreOne(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	c := enginetest.Caller(user)
	pa := zap(w, user, paidaction.Optimistic)
	if _, err := w.Engine.Cancel(w.Ctx, c, pa.ID); err != nil {
		t.Fatal(err)
	}
	answers := make(chan int64)
	for range 16 {
		go func() {
			again, err := w.Engine.Retry(w.Ctx, c, pa.ID, "again", paidaction.Terms{}, nil)
			if err != nil {
				t.Error(err)
				answers <- 0
				return
			}
			answers <- again.ID
		}()
	}
	ids := map[int64]bool{}
	for range 16 {
		ids[<-answers] = true
	}
	if n := w.Count(`SELECT count(*) FROM paid_action WHERE genesis_id = $1`, pa.ID); len(ids) != 1 || n != 1 {
		t.Errorf("answers %v, %d successors", ids, n)
	}
}
