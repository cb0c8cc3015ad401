package community_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// LND makes no invoice over more than 100,000 bitcoin. Who asks for one has asked for an impossible amount; the node is not at fault, nothing is begun, and it
// is no use to try again in a minute.
func TestNoInvoiceIsOverMoreThanANodeMakes(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("rich", 0, 0)
	post := w.Post(w.User("author", 10*sat, 0), "a post")
	most := paidaction.MaxInvoice.Sats()
	actions := w.Count(`SELECT count(*) FROM paid_action`)
	for name, ask := range map[string]struct {
		user int64
		kind string
		args any
	}{
		"pessimistic, anonymous": {0, community.KindDonate, community.DonateArgs{Sats: most + 1}},
		"pessimistic":            {user, community.KindBuyCredits, community.BuyCreditsArgs{Credits: most + 1}},
		"optimistic":             {user, community.KindBoost, community.BoostArgs{Item: post, Sats: most + 1}},
		"receive":                {0, community.KindReceive, community.ReceiveArgs{User: user, Msat: (most + 1) * sat}},
	} {
		_, err := w.Try(ask.user, ask.kind, ask.args, "", "")
		if w.WantRefusal(err, paidaction.CodeInvalidAmount); t.Failed() {
			t.Fatal(name)
		}
	}
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != actions {
		t.Errorf("%d actions were begun for which there can be no invoice", n-actions)
	}
	if pa := w.Pay(user, community.KindDonate, community.DonateArgs{Sats: most}, ""); pa.Invoice.Bolt11 == "" {
		t.Error("there is no invoice over the most")
	}
}
