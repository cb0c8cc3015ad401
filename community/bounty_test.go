package community_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// makeBounty promises sats for a comment, and has n people answer.
func makeBounty(w *enginetest.World, owner, sats int64, n int) (id int64, answers []int64) {
	w.Helper()
	id = w.Item(create(w, owner, community.ItemCreateArgs{Title: fmt.Sprint("who knows? ", sats), Bounty: &sats}))
	for i := range n {
		hunter := w.User(fmt.Sprintf("hunter_%d_%d", id, i), 10*sat, 0)
		answers = append(answers, w.Item(create(w, hunter, community.ItemCreateArgs{Body: "I do", Parent: id})))
	}
	return id, answers
}

// paidTo is the comment that a bounty was paid to; 0 while it is open.
func paidTo(w *enginetest.World, bounty int64) int64 {
	w.Helper()
	got := item(w, bounty)
	if (got.BountyPaidAt == nil) != (got.BountyCommentID == nil) {
		w.Errorf("%+v", got)
	}
	if got.BountyCommentID == nil {
		return 0
	}
	return *got.BountyCommentID
}

// spec 02 §2.4: a bounty met by its owner marks it paid.
func TestBountyIsPaidByItsOwnersZaps(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	owner, other := w.User("owner", 10_000*sat, 0), w.User("other", 10_000*sat, 0)
	bounty, answers := makeBounty(w, owner, 100, 2)
	deep := w.Item(create(w, other, community.ItemCreateArgs{Body: "deeper", Parent: answers[1]}))
	zap := func(user, item, sats, want int64) {
		t.Helper()
		w.Pay(user, community.KindZap, community.ZapArgs{Item: item, Sats: sats}, paidaction.FeeCredit)
		if got := paidTo(w, bounty); got != want {
			t.Fatalf("after %d sats from %d to %d the bounty is paid to %d, want %d", sats, user, item, got, want)
		}
	}
	zap(other, answers[0], 1000, 0)                                                                           // not the owner
	w.Pay(owner, community.KindDownZap, community.ZapArgs{Item: answers[0], Sats: 200}, paidaction.FeeCredit) // the other way
	zap(other, bounty, 1000, 0)
	zap(owner, answers[0], 99, 0)
	zap(owner, answers[1], 99, 0) // together more, but each is less
	zap(owner, deep, 40, 0)
	unpaid := w.Pay(owner, community.KindZap, community.ZapArgs{Item: deep, Sats: 1000}, paidaction.Optimistic)
	if got := paidTo(w, bounty); got != 0 {
		t.Fatalf("an unpaid zap pays it to %d", got)
	}
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(owner), unpaid.ID); err != nil {
		t.Fatal(err)
	}
	zap(owner, deep, 59, 0)
	zap(owner, deep, 1, deep) // at any depth
	zap(owner, answers[0], 1000, deep)
	if n := w.Count(`SELECT count(*) FROM bounty_payment`); n != 1 {
		t.Errorf("%d bounties are paid", n)
	}
	// Elsewhere the owner's zaps pay nothing of the kind.
	plain := w.Post(other, "no bounty")
	comment := w.Item(create(w, other, community.ItemCreateArgs{Body: "x", Parent: plain}))
	w.Pay(owner, community.KindZap, community.ZapArgs{Item: comment, Sats: 1000}, "")
	if n := w.Count(`SELECT count(*) FROM bounty_payment`); n != 1 {
		t.Errorf("%d bounties are paid", n)
	}
}

// spec 05.19: a bounty is never paid twice, and none that is met stays open, whatever comes at the same time.
func TestBountyIsPaidOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	owner := w.User("owner", 10_000*sat, 0)
	chance := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		w.Clock.Advance(time.Hour)
		sats := 10 + chance.Int64N(20)
		bounty, answers := makeBounty(w, owner, sats, 2)
		totals := map[int64]int64{}
		errs := make(chan error)
		const zaps = 6
		for range zaps {
			answer, part := answers[chance.IntN(len(answers))], 1+chance.Int64N(sats)
			totals[answer] += part
			go func() {
				_, err := w.Try(owner, community.KindZap, community.ZapArgs{Item: answer, Sats: part}, paidaction.FeeCredit, "")
				errs <- err
			}()
		}
		for range zaps {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		met := false
		for _, total := range totals {
			met = met || total >= sats
		}
		if got := paidTo(w, bounty); (got != 0) != met || got != 0 && totals[got] < sats {
			t.Errorf("a bounty of %d sats, zapped with %v, is paid to %d", sats, totals, got)
		}
	}
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 || w.Faults.Conflicts != 0 {
		t.Errorf("%d deadlocks, %d conflicts", n, w.Faults.Conflicts)
	}
	w.WantConserved()
}
