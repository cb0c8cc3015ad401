package paidaction_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Who asks for an invoice is answered from what was written, without a look at the row: it is what the row says.
func TestTheAnswerIsWhatWasStored(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, user := w.User("author", 1000*sat, 0), w.User("reader", 0, 0)
	item := w.Post(author, "popular")
	w.Wallets.Add(author)
	check := func(what string, answer *paidaction.PaidAction, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		stored := w.Look(answer.ID)
		plain(t, answer)
		plain(t, stored)
		if answer.Invoice == nil || answer.Invoice.Bolt11 == "" || !reflect.DeepEqual(answer, stored) {
			t.Errorf("%s: answered %+v %+v, stored %+v %+v", what, answer, answer.Invoice, stored, stored.Invoice)
		}
	}
	zap := community.ZapArgs{Item: item, Sats: 100}
	for _, m := range []paidaction.Method{paidaction.Optimistic, paidaction.Pessimistic, paidaction.P2P} {
		answer, err := w.Try(user, community.KindZap, zap, m, fmt.Sprint("key ", m))
		check(string(m), answer, err)
		again, err := w.Try(user, community.KindZap, zap, m, fmt.Sprint("key ", m))
		check(string(m)+", asked for again", again, err)
		if err == nil && answer.ID != again.ID {
			t.Errorf("%s: one key, and the actions %d and %d", m, answer.ID, again.ID)
		}
		if m == paidaction.Optimistic {
			continue
		}
		answer, err = w.Try(0, community.KindZap, zap, m, "")
		check(string(m)+" of the anonymous", answer, err)
		if err == nil && answer.Secret == "" {
			t.Errorf("%s: the anonymous payer gets no secret", m)
		}
	}
	first := w.Pay(user, community.KindZap, zap, paidaction.Optimistic)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), first.ID); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	answer, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), first.ID, "", paidaction.Terms{}, nil)
	check("a second attempt", answer, err)
}

// The cancel was committed, and then the database is away: nobody is told that nothing was changed. Asked again, it is done.
func TestACancelThatCannotBeReadBack(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 100*sat, 0)
	pa := donate(w, user, paidaction.Pessimistic)
	engine, c := cutting(w, true)
	c.then = true
	c.armed.Store(true)
	_, err := engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID)
	w.WantRefusal(err, paidaction.CodeUnknownOutcome)
	w.WantState(pa.ID, paidaction.Canceling)
	c.away.Store(false)
	fresh, _ := cutting(w, true)
	if pa, err := fresh.Cancel(w.Ctx, enginetest.Caller(user), pa.ID); err != nil || pa.State != paidaction.Failed {
		t.Errorf("%+v, %v", pa, err)
	}
}

// plain makes two views of one action comparable: PostgreSQL has its own way to write JSON, and pgx to say in which zone a moment is.
func plain(t *testing.T, pa *paidaction.PaidAction) {
	t.Helper()
	for _, raw := range []*json.RawMessage{&pa.Args, &pa.Result} {
		if *raw == nil {
			continue
		}
		var value any
		if err := json.NewDecoder(bytes.NewReader(*raw)).Decode(&value); err != nil {
			t.Fatal(err)
		}
		written, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		*raw = written
	}
	for _, at := range []*time.Time{&pa.CreatedAt, &pa.ChangedAt, pa.Deadline, &pa.Invoice.ExpiresAt} {
		*at = at.UTC()
	}
}
