package webhook_test

import (
	"bytes"
	"slices"
	"strconv"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Whoever is paid by somebody else's action is told once what they got, however it came, and not from whom.
func TestWhatIsReceivedIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	payer, author, friend := w.User("payer", 1_000_000, 1_000_000), w.User("author", 1_000_000, 0), w.User("friend", 0, 0)
	whole, shared := w.Post(author, "hers alone"), w.Post(author, "shared", community.Forward{User: friend, Pct: 33})
	given := w.Post(author, "given away", community.Forward{User: friend, Pct: 100})
	servers := map[int64]*server{payer: newServer(t), author: newServer(t), friend: newServer(t)}
	hooks := map[int64]int64{}
	for user, s := range servers {
		user := user
		hooks[user], _ = w.Tell(&user, s.URL, "payment.received")
	}
	balance := func(user int64) int64 { return w.Balance(ledger.UserCredits(user)) + w.Balance(ledger.UserSats(user)) }
	// told returns what each was told of this action, and compares it with what their balances and wallets got.
	told := func(what string, id int64, before map[int64]int64, direct int64) {
		t.Helper()
		w.Drain()
		if err := w.Engine.AfterPaid(w.Ctx, id); err != nil { // as after a crash
			t.Fatal(err)
		}
		w.Deliver()
		pa := w.Look(id)
		for user, s := range servers {
			want := balance(user) - before[user]
			if user == author {
				want += direct
			}
			got := s.Got()
			if user == payer || want == 0 {
				if len(got) != 0 {
					t.Errorf("%s: who received nothing was told %s", what, got[0].Text)
				}
				continue
			}
			if len(got) != 1 {
				t.Errorf("%s: %d messages of %d msat", what, len(got), want)
				continue
			}
			d := got[0].Body.Data
			if got[0].Body.Type != "payment.received" || d.ReceivedMsat != strconv.FormatInt(want, 10) || d.ID != strconv.FormatInt(id, 10) || d.Kind != pa.Kind ||
				(d.ItemID != "") != (pa.Kind == community.KindZap) || !got[0].Body.Timestamp.Equal(pa.ChangedAt) {
				t.Errorf("%s: %s, want %d msat", what, got[0].Text, want)
			}
			for _, private := range []string{"payerId", "costMsat", "paymentMethod", "lunch"} {
				if bytes.Contains(got[0].Text, []byte(private)) {
					t.Errorf("%s: %s is told: %s", what, private, got[0].Text)
				}
			}
			if m := w.log(hooks[user])[0]; m.Action != nil {
				t.Errorf("%s: the payer's action is in the receiver's log", what)
			}
		}
	}
	now := func() map[int64]int64 {
		return map[int64]int64{payer: balance(payer), author: balance(author), friend: balance(friend)}
	}
	invoiced := func(kind string, args any, m paidaction.Method) int64 {
		t.Helper()
		pa := w.Pay(payer, kind, args, m)
		if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
		w.Advance(pa.ID)
		w.Drain()
		return pa.ID
	}

	for name, item := range map[string]int64{"a zap": whole, "a zap that is shared": shared, "a zap that is given away": given} {
		before := now()
		told(name, w.Pay(payer, community.KindZap, community.ZapArgs{Item: item, Sats: 101}, paidaction.FeeCredit).ID, before, 0)
	}
	before := now()
	told("a zap by invoice", invoiced(community.KindZap, community.ZapArgs{Item: shared, Sats: 101}, paidaction.Optimistic), before, 0)
	before = now()
	told("to the address", invoiced(community.KindReceive, community.ReceiveArgs{User: author, Msat: 100_000, Comment: "lunch"}, paidaction.Pessimistic), before, 0)

	// Several zaps that share one job.
	before = now()
	one := w.Pay(payer, community.KindZap, community.ZapArgs{Item: whole, Sats: 1}, paidaction.FeeCredit).ID
	two := w.Pay(payer, community.KindZap, community.ZapArgs{Item: whole, Sats: 2}, paidaction.FeeCredit).ID
	if err := w.Engine.AfterPaid(w.Ctx, one, two); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	w.Deliver()
	var came int64
	for _, c := range servers[author].Got() {
		came += number(t, c.Body.Data.ReceivedMsat)
	}
	if want := balance(author) - before[author]; came != want || want == 0 {
		t.Errorf("of %d msat by two zaps %d were told", want, came)
	}

	// Directly to the author's own wallet.
	w.Wallets.Add(author)
	stop := w.Run(w.Relay)
	for _, c := range []struct {
		kind   string
		args   any
		direct int64
	}{
		{community.KindZap, community.ZapArgs{Item: whole, Sats: 100}, 70_000},
		{community.KindZap, community.ZapArgs{Item: shared, Sats: 100}, 46_900}, // and to the friend their credits alone
		{community.KindReceive, community.ReceiveArgs{User: author, Msat: 100_000}, 90_000},
	} {
		before = now()
		pa := w.Pay(payer, c.kind, c.args, paidaction.P2P)
		if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
		w.Advance(pa.ID)
		w.Await(pa.ID, paidaction.Paid)
		told(c.kind+" directly", pa.ID, before, c.direct)
	}
	stop()
}

// A receiver who was paid directly is told so even if nothing is forwarded to them any more by then.
func TestWhoIsPaidDirectlyIsToldWhateverIsForwardedByThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	payer, author, friend := w.User("payer", 0, 0), w.User("author", 1_000_000, 0), w.User("friend", 0, 0)
	post := w.Post(author, "shared", community.Forward{User: friend, Pct: 60})
	w.Wallets.Add(friend)
	s := newServer(t)
	w.Tell(&friend, s.URL, "payment.received")
	pa := w.Pay(payer, community.KindZap, community.ZapArgs{Item: post, Sats: 100}, paidaction.P2P)
	w.Pay(author, community.KindItemUpdate, community.ItemUpdateArgs{Item: post, Forwards: []community.Forward{}}, "")
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	stop := w.Run(w.Relay)
	w.Advance(pa.ID)
	w.Await(pa.ID, paidaction.Paid)
	stop()
	w.Drain()
	w.Deliver()
	if got := s.Got(); len(got) != 1 || got[0].Body.Data.ReceivedMsat != "42000" {
		t.Errorf("told %d times: %v", len(got), got)
	}
	if n := w.Count(`SELECT count(*) FROM notification WHERE user_id = $1 AND kind = 'ZAP' AND action_id = $2`, friend, pa.ID); n != 1 {
		t.Errorf("%d notifications", n)
	}
}

// A zap is told to those who got a part of it when it was paid, by whatever forwards it: not to who would get one when
// what follows the payment is done. Who gets a part of their own zap is not told.
func TestWhoReceivedAPartIsToldWhateverIsForwardedByThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	payer, author, friend, other := w.User("payer", 1_000_000, 0), w.User("author", 1_000_000, 0), w.User("friend", 0, 0), w.User("other", 0, 0)
	post := w.Post(author, "shared", community.Forward{User: friend, Pct: 60}, community.Forward{User: payer, Pct: 10})
	servers := map[int64]*server{}
	for _, user := range []int64{payer, author, friend, other} {
		servers[user] = newServer(t)
		w.Tell(&user, servers[user].URL, "payment.received")
	}
	id := w.Pay(payer, community.KindZap, community.ZapArgs{Item: post, Sats: 100}, paidaction.FeeCredit).ID
	w.Pay(author, community.KindItemUpdate, community.ItemUpdateArgs{Item: post, Forwards: []community.Forward{{User: other, Pct: 60}}}, "")
	w.Drain()
	w.Deliver()
	for name, c := range map[string]struct {
		user int64
		msat string // "": they are not told
	}{"the author": {author, "21000"}, "who lost the share": {friend, "42000"}, "who has it by now": {other, ""}, "the payer": {payer, ""}} {
		var told []string
		for _, call := range servers[c.user].Got() {
			told = append(told, call.Body.Data.ReceivedMsat)
		}
		var want []string
		if c.msat != "" {
			want = []string{c.msat}
		}
		if !slices.Equal(told, want) {
			t.Errorf("%s is told of %v msat, want %v", name, told, want)
		}
		if n := w.Count(`SELECT count(*) FROM notification WHERE user_id = $1 AND kind = 'ZAP' AND action_id = $2`, c.user, id); n != int64(len(want)) {
			t.Errorf("%s has %d notifications", name, n)
		}
	}
}

// A receipt is told to the webhooks of whoever got it that are for all events, or for this one.
func TestReceiptsAreToldToWhoeverAskedForThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	payer, author := w.User("payer", 0, 1_000_000), w.User("author", 1_000_000, 0)
	post := w.Post(author, "a post")
	all, other, only := newServer(t), newServer(t), newServer(t)
	w.Tell(&author, all.URL)
	w.Tell(&author, other.URL, "action.paid")
	w.Tell(&author, only.URL, "payment.received")
	w.Pay(payer, community.KindZap, community.ZapArgs{Item: post, Sats: 10}, paidaction.RewardSats)
	w.Drain()
	w.Deliver()
	for _, c := range []struct {
		name string
		s    *server
		want int
	}{{"all events", all, 1}, {"another event", other, 0}, {"receipts", only, 1}} {
		told := 0
		for _, call := range c.s.Got() {
			if call.Body.Type == "payment.received" {
				told++
			}
		}
		if told != c.want {
			t.Errorf("the webhook for %s was told of %d receipts, want %d", c.name, told, c.want)
		}
	}
}
