package community_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// dearer is RECEIVE with other percentages than those of the world.
type dearer struct{ community.Receive }

const kindDearer = "DEARER"

func (d dearer) Spec() paidaction.Spec {
	s := d.Receive.Spec()
	s.Kind = kindDearer
	return s
}

// spec 02 §2.4: of what is sent to a user a part is for the rewards, and routing gets what is left: the first sat,
// and all of it where it is less (spec 03 §3.2). A route that costs more is not taken: the receiver gets their share in sats.
func TestRoutingTakesNothingFromTheRewardsShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fee    int // percent for the rewards
		sats   int64
		routed paidaction.Msat // what the route costs
		direct bool
	}{
		"all that is left":        {7, 100, 3_000, true},
		"a larger share":          {8, 100, 2_000, true},
		"more than that leaves":   {8, 100, 2_001, false},
		"nothing left but a sat":  {10, 100, 1_000, true},
		"and not more than that":  {10, 100, 1_001, false},
		"a sat of little":         {7, 20, 1_000, true},
		"and not more of it":      {7, 20, 1_001, false},
		"all of what is less":     {7, 9, 900, true},
		"and no more than all":    {7, 9, 901, false},
		"no more than 3 per cent": {0, 100, 3_001, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := community.DefaultSettings()
			s.ReceiveFeePct = c.fee
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(dearer{community.Receive{Settings: s}}))
			receiver := w.User("receiver", 0, 0)
			w.Wallets.Add(receiver)
			w.Node.SetRoute(simnode.Route{Fee: c.routed, Blocks: 40})
			pa := w.Pay(0, kindDearer, community.ReceiveArgs{User: receiver, Msat: c.sats * sat}, "")
			if direct := pa.Method == paidaction.P2P; direct != c.direct {
				t.Fatalf("it is paid by %s", pa.Method)
			}
			if err := w.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
				t.Fatal(err)
			}
			w.Advance(pa.ID)
			if c.direct {
				w.Run(w.Relay)
				w.Await(pa.ID, paidaction.Paid)
				w.WantBalance(ledger.RewardSats, c.sats*100-int64(c.routed))
			} else {
				w.Drain()
				w.WantBalance(ledger.UserSats(receiver), c.sats*900)
				w.WantBalance(ledger.RewardSats, c.sats*100)
			}
		})
	}
}
