package relay_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// withPlaces gives a node so many places, which a payment that hangs keeps for longer than any test lasts.
func withPlaces(n int) func(*relay.Config) {
	return func(c *relay.Config) {
		c.Leases, c.Places, c.Settings.SendWindow = newCounted(n, "one"), map[string]int{"one": n}, time.Hour
	}
}

// hanging are withdrawals of so many accounts whose receivers let them hang.
func (b *bundle) hanging(accounts int) (held []simnode.Issued) {
	b.Helper()
	before := b.payer
	defer func() { b.payer = before }()
	for i := range accounts {
		b.payer = b.User(fmt.Sprintf("hanging_%d", i), 0, 100_000)
		inv := b.issue(simnode.Ask{Amount: 1_000, Act: simnode.Holds, Expiry: 10 * time.Minute})
		b.withdraw(inv.Bolt11)
		held = append(held, inv)
	}
	return held
}

// claimedWithdrawals is how many withdrawals are in work.
func (b *bundle) claimedWithdrawals() int64 {
	b.Helper()
	return b.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'in_work' AND receiver_id IS NULL`)
}

// Several accounts whose withdrawals hang, and expire before all else, leave places for a zap.
func TestWithdrawalsThatHangHoldUpNoForward(t *testing.T) {
	b := setup(t)
	held := b.hanging(5)
	b.Run(b.NewRelay(withPlaces(3)))
	b.await("two withdrawals hang", func() bool { return b.claimedWithdrawals() == 2 })
	for range 2 {
		pa := b.zap()
		b.pay(pa)
		b.Await(pa.ID, paidaction.Paid)
		if n := b.claimedWithdrawals(); n != 2 {
			t.Errorf("%d withdrawals hold places, want 2 of 3", n)
		}
	}
	for _, inv := range held { // each place goes to the next of them
		b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 1_000 })
		if err := b.wallet.Receiver.Cancel(inv.Hash); err != nil {
			t.Fatal(err)
		}
	}
	b.await("all have ended", func() bool { return b.claimedWithdrawals() == 0 })
	b.wantSound()
}

// Forwards that hang may hold all places, and more of them wait that expire sooner: a withdrawal is sent all the same, with one of the next
// places.
func TestForwardsThatHangKeepNoWithdrawalWaiting(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Holds
	var zaps []*paidaction.PaidAction
	for range 4 {
		pa := b.zap()
		b.pay(pa)
		zaps = append(zaps, pa)
	}
	clock, pass := byItself()
	b.Run(b.NewRelay(clock, withPlaces(2)))
	b.awaitHeld(zaps[0])
	b.awaitHeld(zaps[1])
	b.rich(100)
	pa := b.withdraw(b.issue(simnode.Ask{Amount: 50_000, Expiry: 24 * time.Hour}).Bolt11)
	pass(2 * time.Second)
	if err := b.wallet.Receiver.Cancel(zaps[0].Invoice.Hash); err != nil {
		t.Fatal(err)
	}
	b.Await(pa.ID, paidaction.Paid)
	b.awaitHeld(zaps[2]) // no place is left empty
	b.wantSound()
}

// However many claim at the same time, withdrawals hold half of the places, rounded up. Where there is one place only, or nobody says how
// many, their share is not bounded.
func TestWithdrawalsHoldHalfOfThePlaces(t *testing.T) {
	for places, want := range []int{0: 4, 1: 4, 2: 1, 3: 2, 4: 2, 5: 3} {
		t.Run(fmt.Sprintf("%d places", places), func(t *testing.T) {
			b := setup(t)
			held := b.hanging(4)
			g := &gate{asked: make(chan struct{}, len(held)), open: make(chan struct{})}
			r := b.NewRelay(withPlaces(places), func(c *relay.Config) { c.Leases = g })
			taken := make(chan bool, len(held))
			for range held {
				go func() {
					more, err := r.Step(b.Ctx, "one", b.Engine.Advance)
					if err != nil {
						t.Error(err)
					}
					taken <- more
				}()
				<-g.asked
			}
			close(g.open)
			b.await("some hang, and the others get no place", func() bool {
				return b.claimedWithdrawals() == int64(want) && len(taken) == len(held)-want
			})
			another := b.NewRelay(withPlaces(places), func(c *relay.Config) {
				c.Leases = &slow{meanwhile: func() { t.Error("a place is taken for a withdrawal that may not have it") }}
			})
			if more, err := another.Step(b.Ctx, "one", b.Engine.Advance); more || err != nil {
				t.Errorf("one more is claimed by another process: %t, error %v", more, err)
			}
			for range len(taken) {
				if <-taken {
					t.Error("a withdrawal that hangs has ended")
				}
			}
			b.await("those that hang have ended", func() bool {
				for _, inv := range held {
					_ = b.wallet.Receiver.Cancel(inv.Hash) // some are not sent yet, or never
				}
				return len(taken) == want
			})
		})
	}
}

// The next withdrawal follows the one whose place it gets, and waits for no look that nobody announced.
func TestTheNextWithdrawalFollowsThePaidOne(t *testing.T) {
	b := setup(t).rich(1_000)
	var all []*paidaction.PaidAction
	for range 8 {
		all = append(all, b.withdraw(b.issue(simnode.Ask{Amount: 1_000}).Bolt11))
	}
	b.Run(b.NewRelay(withPlaces(2), func(c *relay.Config) { c.Settings.Poll = time.Hour }))
	for _, pa := range all {
		b.Await(pa.ID, paidaction.Paid)
	}
	b.wantSound()
}

// hostile is a payment to somebody of its own that hangs, and expires before others.
type hostile struct {
	pa   *paidaction.PaidAction
	to   *simnode.Receiver
	hash paidaction.Hash
}

func (h hostile) hangs() bool { return h.to.Receipt(h.hash).Held > 0 }

// hostileZap is a zap to a receiver of its own, who lets it hang.
func (b *bundle) hostileZap(n int) hostile {
	b.Helper()
	item, wallet := b.item, b.wallet
	defer func() { b.item, b.wallet = item, wallet }()
	to := b.User(fmt.Sprintf("receiver_%d", n), 100_000, 0)
	b.item, b.wallet = b.Post(to, "another post"), b.Wallets.Add(to)
	b.wallet.Ask = simnode.Ask{Act: simnode.Holds, Expiry: 10 * time.Minute}
	pa := b.zap()
	b.pay(pa)
	return hostile{pa, b.wallet.Receiver, pa.Invoice.Hash}
}

// hostileWithdrawal is one of an account of its own, which lets it hang.
func (b *bundle) hostileWithdrawal(n int) hostile {
	b.Helper()
	before := b.payer
	defer func() { b.payer = before }()
	b.payer = b.User(fmt.Sprintf("payer_%d", n), 0, 100_000)
	inv := b.issue(simnode.Ask{Amount: 1_000, Act: simnode.Holds, Expiry: 10 * time.Minute})
	return hostile{b.withdraw(inv.Bolt11), b.wallet.Receiver, inv.Hash}
}

// As many payments to different receivers hang as there are places for, and whenever one of them ends, the next one has come, which expires
// before all others. Whoever has waited for half a minute gets one of the next few places all the same.
func TestNobodyIsOvertakenForEver(t *testing.T) {
	honestZap := func(b *bundle) *paidaction.PaidAction {
		b.wallet.Ask.Expiry = 24 * time.Hour
		pa := b.zap()
		b.pay(pa)
		return pa
	}
	honestWithdrawal := func(b *bundle) *paidaction.PaidAction {
		return b.rich(100).withdraw(b.issue(simnode.Ask{Amount: 50_000, Expiry: 24 * time.Hour}).Bolt11)
	}
	for name, c := range map[string]struct {
		places, hang int // so many places, and so many payments that hang
		hostile      func(b *bundle, n int) hostile
		honest       func(*bundle) *paidaction.PaidAction
		passes       time.Duration // between two places that become free
	}{
		"a forward":                                              {2, 2, (*bundle).hostileZap, honestZap, 0},
		"a forward where there is one place":                     {1, 1, (*bundle).hostileZap, honestZap, 0},
		"a withdrawal where there is one place":                  {1, 1, (*bundle).hostileZap, honestWithdrawal, 0},
		"a withdrawal behind others":                             {2, 1, (*bundle).hostileWithdrawal, honestWithdrawal, 0},
		"a withdrawal behind others, whose turn it is each time": {2, 1, (*bundle).hostileWithdrawal, honestWithdrawal, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			clock, pass := byItself()
			b.Run(b.NewRelay(clock, withPlaces(c.places)))
			var hanging []hostile
			for n := range c.hang {
				hanging = append(hanging, c.hostile(b, n))
				b.await("it hangs", hanging[n].hangs)
			}
			honest := c.honest(b)
			if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_payment SET created_at = created_at - interval '30 seconds' WHERE action_id = $1`, honest.ID); err != nil {
				t.Fatal(err)
			}
			const few = 4
			for n := range few {
				next := c.hostile(b, c.hang+n)
				pass(c.passes)
				if err := hanging[0].to.Cancel(hanging[0].hash); err != nil {
					t.Fatal(err)
				}
				claimed := func() bool {
					return b.Count(`SELECT count(*) FROM relay_payment WHERE action_id = $1 AND attempts > 0`, honest.ID) == 1
				}
				b.await("somebody gets the place", func() bool { return next.hangs() || claimed() })
				if hanging = append(hanging[1:], next); claimed() {
					b.Await(honest.ID, paidaction.Paid)
					b.wantSound()
					return
				}
			}
			t.Errorf("%d places went to payments that came later", few)
		})
	}
}

// Nobody keeps a receiver's wallet from others by leaving invoices unpaid: a third of its places is for one payer, and
// for all anonymous ones behind one address.
func TestAPayerHasAShareOfAWallet(t *testing.T) {
	t.Parallel()
	b := newBundle(t, paidaction.Settings{MaxForwards: 10, MaxWalletPending: 5}, "one")
	first := b.zap()
	b.zap()
	b.full()
	otherwise := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
	if otherwise.Method == paidaction.P2P {
		t.Error("it goes to the wallet")
	}
	greedy := b.payer
	b.payer = 0
	b.zap()
	b.zap()
	b.full()
	b.payer = b.User("another", 0, 0)
	b.zap()
	b.full() // now it is full for everybody
	b.payer = greedy
	b.full()
	b.pay(first)
	b.zap()
}

// No bound at all is a number too, and its third is for one payer.
func TestAWalletMayHaveAnyNumberOfPlaces(t *testing.T) {
	t.Parallel()
	newBundle(t, paidaction.Settings{MaxWalletPending: math.MaxInt64}, "one").zap()
}

// A payer does not get more of a wallet by asking for all at once.
func TestAPayersShareOfAWalletIsCountedOneByOne(t *testing.T) {
	t.Parallel()
	b := newBundle(t, paidaction.Settings{MaxForwards: 10, MaxWalletPending: 5}, "one")
	const atOnce = 5
	var asked, done sync.WaitGroup
	asked.Add(atOnce)
	b.wallet.Before = func() { asked.Done(); asked.Wait() }
	for range atOnce {
		done.Go(func() {
			_, _ = b.Try(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, paidaction.P2P, "")
		})
	}
	done.Wait()
	if n := b.Count(`SELECT count(*) FROM paid_action WHERE state = 'PENDING_HELD'`); n != 2 {
		t.Errorf("%d of the five places are theirs", n)
	}
}
