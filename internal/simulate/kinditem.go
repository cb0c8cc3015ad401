package simulate

import (
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// itemKinds are about items.
var itemKinds = []*kind{
	{name: community.KindZap, weight: 8, anonymous: true,
		methods: []paidaction.Method{paidaction.P2P, paidaction.P2P, paidaction.FeeCredit, paidaction.RewardSats, paidaction.Optimistic, paidaction.Pessimistic},
		args: func(w *world, r *request) any {
			return community.ZapArgs{Item: r.target(w.model), Sats: r.sats(20)}
		},
		price: exactly("sats", 1000), shares: zapShares, leaves: zapLeaves},
	{name: community.KindDownZap, weight: 3, methods: atOnce,
		args: func(w *world, r *request) any {
			return community.ZapArgs{Item: r.target(w.model), Sats: r.sats(10)}
		},
		price: exactly("sats", 1000), shares: nobodys, leaves: downZapLeaves},
	{name: community.KindItemCreate, weight: 5, anonymous: true, files: true, methods: anyWay, args: createArgs,
		price: itemPrice, shares: feeShares, leaves: itemLeaves},
	{name: community.KindItemUpdate, weight: 4, anonymous: true, files: true, methods: heldFirst, args: updateArgs,
		price: func(m *model, a *attempt) (int64, int64) { return extras(a), extras(a) }, shares: feeShares, leaves: updateLeaves},
	{name: community.KindBoost, weight: 3, methods: anyWay,
		args: func(w *world, r *request) any {
			return community.BoostArgs{Item: r.target(w.model), Sats: r.sats(10)}
		},
		price: exactly("sats", 1000), shares: feeShares,
		leaves: func(m *model, a *attempt) { m.boost(a, number(a.args["item"]), a.cost) }},
	{name: community.KindPollVote, weight: 3, methods: atOnce,
		args: func(w *world, r *request) any {
			options := w.model.poll().options
			return community.PollVoteArgs{Option: options[r.draw%uint64(len(options))]}
		},
		price:  func(m *model, _ *attempt) (int64, int64) { return voteSats * 1000, voteSats * 1000 },
		shares: func(m *model, a *attempt) []share { return founderShare(m.poll().founder, a) },
		leaves: func(m *model, a *attempt) { m.pollVotes = append(m.pollVotes, a) }},
}

// What the poll asks for and the bounty promises, of those that exist from the beginning.
const (
	voteSats   = 3
	bountySats = 800
)

// createArgs are the arguments for making a comment or any other kind of item.
func createArgs(w *world, r *request) any {
	args := community.ItemCreateArgs{Uploads: r.fileIDs()}
	kind := r.draw >> 32 % 12
	if kind < 6 {
		args.Body, args.Parent = fmt.Sprintf("comment %d", r.id), r.target(w.model)
		return args
	}
	if kind == 11 {
		args.Bio = new(fmt.Sprintf("bio %d", r.id))
		return args
	}
	args.Title, args.Body = fmt.Sprintf("post %d", r.id), "@u1"
	switch kind {
	case 7:
		args.URL = new(fmt.Sprintf("https://example.com/%d", r.id))
	case 8:
		args.PollArgs = &community.PollArgs{Options: []string{"yes", "no"}, Price: r.sats(2)}
	case 9:
		args.Bounty = new(r.sats(10))
	case 10:
		args.JobArgs = &community.JobArgs{Company: "Acme", Location: "anywhere"}
	}
	if r.draw>>36%3 == 0 {
		args.Territory = landName
	}
	if r.draw>>40%3 == 0 {
		args.Boost = r.sats(5)
	}
	return args
}

// updateArgs change an item of the person's own, if they have one: its text, its boost, its files.
func updateArgs(w *world, r *request) any {
	item := w.model.items[r.draw%uint64(len(w.model.items))]
	for _, it := range w.model.items {
		if it.author == w.people[r.who] && (item.author != it.author || r.draw>>32%2 == 0) {
			item = it
		}
	}
	r.shows = item.secret
	args := community.ItemUpdateArgs{Item: item.id, Uploads: r.fileIDs()}
	if r.draw>>36%3 > 0 || len(args.Uploads) == 0 {
		args.Body = new(fmt.Sprintf("changed by act %d", r.id))
	}
	if r.draw>>40%2 == 0 && item.kind != "COMMENT" {
		args.Boost = r.sats(5)
	}
	return args
}

// extras are what the boosts and files of an item cost on top of it.
func extras(a *attempt) int64 {
	price := number(a.args["boost"]) * 1000
	if _, ok := a.args["uploads"]; ok {
		for _, fee := range a.request.files {
			price += fee
		}
	}
	return price
}

// zapShares: 30 % go to the territory as its fee, or to the rewards. Of the rest each forwardee gets a percentage, and
// the author gets what is left.
func zapShares(m *model, a *attempt) []share {
	it := m.item(number(a.args["item"]))
	fee := a.cost * 30 / 100
	rest := a.cost - fee
	left := rest
	var all []share
	for _, f := range it.forwards {
		part := rest * int64(f.pct) / 100
		all = append(all, share{f.user, credits, part})
		left -= part
	}
	if it.author != 0 {
		all = append(all, share{it.author, credits, left})
	}
	if it.founder == 0 {
		return all
	}
	if a.direct != nil {
		// What was paid directly may be less than the share, because the receiver's wallet cuts off a fraction. The
		// routing budget comes out of the fee.
		fee = a.cost - a.direct.amount - a.direct.budget
		for _, s := range all {
			if s.user != a.direct.receiver {
				fee -= s.msat
			}
		}
		if it.author == 0 {
			fee = max(0, min(a.cost*30/100-a.direct.budget, fee))
		}
	}
	return append(all, share{it.founder, same, fee * 70 / 100})
}

// feeShares are the shares of the price of an item, of a change, or of a boost.
func feeShares(m *model, a *attempt) []share {
	if a.args["territory"] == landName {
		return founderShare(m.world.people[1], a)
	}
	if parent := number(a.args["parent"]); parent != 0 {
		return founderShare(m.item(parent).founder, a)
	}
	return founderShare(m.item(number(a.args["item"])).founder, a)
}

// founderShare: seven tenths of a fee go to the founder, if there is one.
func founderShare(founder int64, a *attempt) []share {
	if founder == 0 {
		return nil
	}
	return []share{{founder, same, a.cost * 70 / 100}}
}

// itemPrice: one sat, ten times as much for the anonymous, and up to ten times as much again for each other item of the
// author's. That it is not too little is checked over all items of an author (see spam). Boosts and files are added to
// it and are not multiplied.
func itemPrice(m *model, a *attempt) (least, most int64) {
	base := int64(1000)
	if parent := number(a.args["parent"]); parent != 0 && m.item(parent).founder != 0 {
		base = m.replyCost
	}
	if a.payer == nil {
		return base*10 + extras(a), base*10 + extras(a)
	}
	most = base
	if _, ok := a.args["bio"]; ok {
		return base + extras(a), base + extras(a)
	}
	for _, it := range m.items {
		if it.author == *a.payer {
			most *= 10
		}
	}
	for _, other := range m.attempts {
		if other.kind == a.kind && other.payer != nil && *other.payer == *a.payer && other.genesis != a.genesis && most < 1e15 {
			most *= 10
		}
	}
	return base + extras(a), most + extras(a)
}
