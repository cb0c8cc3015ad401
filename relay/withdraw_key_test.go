package relay_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A repeated key is one withdrawal, also while the first is under way, and for an address, which gives another invoice each time.
func TestARepeatedKeyIsOneWithdrawal(t *testing.T) {
	t.Parallel()
	b := newBundle(t, paidaction.Settings{MaxWithdrawals: 2}, "one").rich(100) // there is no room for a second one of the last
	inv := b.issue(simnode.Ask{Amount: 30_000})
	for i, args := range []community.WithdrawArgs{
		{To: inv.Bolt11, MaxFeeSats: 5}, {To: fmt.Sprintf("%d@holdfast.example", b.author), Sats: new(int64(10)), MaxFeeSats: 5},
	} {
		key := fmt.Sprint("key ", i)
		made, refused := at(4, func() (*paidaction.PaidAction, error) {
			return b.Try(b.payer, community.KindWithdraw, args, "", key)
		})
		for _, pa := range made {
			if pa.ID != made[0].ID {
				t.Errorf("actions %d and %d for one key", pa.ID, made[0].ID)
			}
		}
		if len(made) == 0 {
			t.Fatalf("%v", refused)
		}
		for _, err := range refused {
			if errors.Is(err, paidaction.Refused(paidaction.CodeTooManyPending)) {
				t.Errorf("key %d, which there is a withdrawal for: %v", i, err)
			}
		}
		again, err := b.Try(b.payer, community.KindWithdraw, args, "", key)
		if err != nil || again.ID != made[0].ID {
			t.Errorf("%+v, %v", again, err)
		}
		args.MaxFeeSats++
		_, err = b.Try(b.payer, community.KindWithdraw, args, "", key)
		b.WantRefusal(err, paidaction.CodeIdempotencyConflict)
	}
	b.WantBalance(ledger.UserSats(b.payer), 100_000-35_000-15_000)
}

// A key is taken after all else is locked. So of a post and a withdrawal with one key, the withdrawal, which waits for
// its payer, has nothing that the post needs.
func TestOneKeyForAWithdrawalAndAPostIsNoDeadlock(t *testing.T) {
	b := setup(t).rich(10_000)
	inv := b.issue(simnode.Ask{Amount: 50_500})
	if _, err := b.Pool.Exec(b.Ctx, `INSERT INTO upload (id, token, owner_id, bytes, content_type, fee_msat, created_at, unclaimed_at)
		VALUES (1, repeat('a', 22), $1, 1, 'image/png', 0, now(), now())`, b.payer); err != nil {
		t.Fatal(err)
	}
	gate, err := b.Pool.Begin(b.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Exec(b.Ctx, `SELECT FROM upload WHERE id = 1 FOR NO KEY UPDATE`); err != nil {
		t.Fatal(err)
	}
	pay := func(kind string, m paidaction.Method, args any) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := b.Try(b.payer, kind, args, m, "one for both")
			done <- err
		}()
		return done
	}
	posted := pay(community.KindItemCreate, paidaction.RewardSats, community.ItemCreateArgs{Title: "late", Uploads: []int64{1}})
	b.AwaitBlocked(1) // it has locked the payer, and waits for its picture
	withdrawn := pay(community.KindWithdraw, "", community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5})
	b.AwaitBlocked(2)
	if err := gate.Rollback(b.Ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-posted; err != nil {
		t.Error(err)
	}
	if err := <-withdrawn; !errors.Is(err, paidaction.Refused(paidaction.CodeIdempotencyConflict)) {
		t.Error(err)
	}
}
