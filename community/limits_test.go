package community_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
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

// What is exactly at its limit is accepted, and what is one above it is refused (spec 02 §2.5).
func TestLimitsAreExact(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	rich, author := w.User("rich", 100_000_000*sat, 0), w.User("author", 10*sat, 0)
	post := w.Post(author, "a post")
	text := func(runes int) string { return strings.Repeat("ü", runes) }
	options := func(n, price int) *community.PollArgs {
		poll := &community.PollArgs{Price: int64(price)}
		for i := range n {
			poll.Options = append(poll.Options, fmt.Sprintf("%03d", i)+text(137))
		}
		return poll
	}
	uploads := func(n int) (ids []int64) {
		for range n {
			ids = append(ids, send(w, rich).ID)
		}
		return ids
	}
	forwards := func(n int) (list []community.Forward) {
		for i := range n {
			list = append(list, community.Forward{User: w.User(fmt.Sprintf("friend_%d_of_%d", i, n), 0, 0), Pct: 100 / n})
		}
		return list
	}
	founded := 0
	territory := func(description, base, reply int) community.TerritoryCreateArgs {
		founded++
		return community.TerritoryCreateArgs{Name: fmt.Sprintf("%032d", founded), Description: text(description), BaseCostSats: int64(base),
			ReplyCostSats: int64(reply), Billing: community.Monthly}
	}
	type args struct {
		kind      string
		at, above any
		want      paidaction.Code
	}
	item := func(at, above community.ItemCreateArgs, want paidaction.Code) args {
		return args{community.KindItemCreate, at, above, want}
	}
	for name, c := range map[string]args{
		"zap":      {community.KindZap, community.ZapArgs{Item: post, Sats: 1_000_000}, community.ZapArgs{Item: post, Sats: 1_000_001}, paidaction.CodeInvalidAmount},
		"down-zap": {community.KindDownZap, community.ZapArgs{Item: post, Sats: 1_000_000}, community.ZapArgs{Item: post, Sats: 1_000_001}, paidaction.CodeInvalidAmount},
		"title":    item(community.ItemCreateArgs{Title: text(140)}, community.ItemCreateArgs{Title: text(141)}, paidaction.CodeInvalidInput),
		"text": item(community.ItemCreateArgs{Title: "text", Body: text(40_000)}, community.ItemCreateArgs{Title: "text", Body: text(40_001)},
			paidaction.CodeInvalidInput),
		"forwards": item(community.ItemCreateArgs{Title: "forwards", Forwards: forwards(5)}, community.ItemCreateArgs{Title: "forwards", Forwards: forwards(6)},
			paidaction.CodeInvalidInput),
		"uploads": item(community.ItemCreateArgs{Title: "uploads", Uploads: uploads(10)}, community.ItemCreateArgs{Title: "uploads", Uploads: uploads(11)},
			paidaction.CodeInvalidInput),
		"options": item(community.ItemCreateArgs{Title: "options", PollArgs: options(10, 1)}, community.ItemCreateArgs{Title: "options", PollArgs: options(11, 1)},
			paidaction.CodeInvalidInput),
		"price of a vote": item(community.ItemCreateArgs{Title: "price", PollArgs: options(2, 1_000_000)},
			community.ItemCreateArgs{Title: "price", PollArgs: options(2, 1_000_001)}, paidaction.CodeInvalidAmount),
		"bounty": item(community.ItemCreateArgs{Title: "bounty", Bounty: new(int64(10_000_000))},
			community.ItemCreateArgs{Title: "bounty", Bounty: new(int64(10_000_001))}, paidaction.CodeInvalidAmount),
		"price of a post":     {community.KindTerritoryCreate, territory(0, 100_000, 1), territory(0, 100_001, 1), paidaction.CodeInvalidAmount},
		"price of a reply":    {community.KindTerritoryCreate, territory(0, 1, 100_000), territory(0, 1, 100_001), paidaction.CodeInvalidAmount},
		"territory described": {community.KindTerritoryCreate, territory(1000, 1, 1), territory(1001, 1, 1), paidaction.CodeInvalidInput},
	} {
		w.Clock.Advance(community.DefaultSettings().SpamWindow) // posts at once would be dearer
		if _, err := w.Try(rich, c.kind, c.at, "", ""); err != nil {
			t.Errorf("%s at its limit: %v", name, err)
		}
		if _, err := w.Try(rich, c.kind, c.above, "", ""); !errors.Is(err, paidaction.Refused(c.want)) {
			t.Errorf("%s above its limit: %v", name, err)
		}
	}
	invite(w, rich, 1, 1000)
}

// What a withdrawal costs is not known before its payee's invoice is: whoever asks for its price is told so.
func TestAWithdrawalHasNoPriceBeforehand(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("user", 0, 10*sat)
	_, err := w.Engine.Price(w.Ctx, paidaction.Request{Kind: community.KindWithdraw, Caller: enginetest.Caller(user),
		Args: community.WithdrawArgs{To: "lnbc1", MaxFeeSats: 1}})
	w.WantRefusal(err, paidaction.CodeMethodUnavailable)
}

// A comment goes to the payee's server, which is not even asked where it is too long. The money stays.
func TestAWithdrawalsCommentIsBounded(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user, payee := w.User("user", 0, 100*sat), w.User("payee", 0, 0)
	wallet := w.Wallets.Add(payee)
	withdraw := func(comment int) error {
		_, err := w.Try(user, community.KindWithdraw, community.WithdrawArgs{To: fmt.Sprintf("%d@holdfast.example", payee), Sats: new(int64(50)), MaxFeeSats: 5,
			Comment: strings.Repeat("ü", comment)}, "", "")
		return err
	}
	w.WantRefusal(withdraw(281), paidaction.CodeInvalidInput)
	w.WantBalance(ledger.UserSats(user), 100*sat)
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != 0 || len(wallet.Issued) != 0 {
		t.Errorf("%d actions were begun, and %d invoices asked for", n, len(wallet.Issued))
	}
	if err := withdraw(280); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}
