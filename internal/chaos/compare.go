package chaos

import (
	"fmt"
	"maps"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// record is an action with its payments, as the database has it at the end.
type record struct {
	id, genesis string
	key         string
	kind        string
	state       paidaction.State
	hash        string // its invoice's hash in hex; empty without one
	received    int64  // msat received for that invoice
	leaving     string // the outgoing payment's hash in hex; empty without one
	left        int64  // msat sent, without routing fees
	completed   bool   // that payment succeeded
}

// facts are the state when all is quiet: in the database, at the payer's node and at the receiver's. The clients' book
// is compared with them.
type facts struct {
	records map[string]record         // by action
	paid    map[string]devnet.Payment // by the payer's node, by hash
	// forgotten are those of them that no channel carries: the payer's node will never say what became of them.
	forgotten map[string]bool
	received  map[string]devnet.Invoice // at the receiver's node, by hash
	credits   map[string]int64          // msat of each buyer of credits, by name
}

// compare returns every difference, one sentence each.
func (b *book) compare(f facts) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	differences := slices.Clone(b.broken)
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	b.compareRequests(f, differ)
	b.compareTold(f, differ)
	comparePayer(f, differ)
	compareReceiver(f, differ)
	b.compareCredits(f, differ)
	slices.Sort(differences)
	return differences
}

type differ func(format string, args ...any)

// compareRequests: everything that was asked for was answered, what was refused was not paid for, and there is no
// action that nobody asked for.
func (b *book) compareRequests(f facts, differ differ) {
	by := map[string]record{}
	for _, r := range f.records {
		if r.key != "" {
			by[r.key] = r
		}
	}
	for key, q := range b.requests {
		r, done := by[key]
		switch {
		case q.action == "" && q.refused == "":
			differ("%s of %s was never answered", q.errand, q.who)
		case q.refused != "" && done && r.state == paidaction.Paid:
			differ("%s of %s was refused with %s, and action %s is PAID", q.errand, q.who, q.refused, r.id)
		case q.action != "" && (!done || r.id != q.action):
			differ("%s of %s became action %s, and the database has %q under its key", q.errand, q.who, q.action, r.id)
		}
	}
	for _, r := range f.records {
		if first := f.records[r.genesis]; b.requests[first.key] == nil {
			differ("action %s (%s) was asked for by nobody", r.id, r.kind)
		}
	}
}

// compareTold: every action that was shown exists, and is what it was shown as.
func (b *book) compareTold(f facts, differ differ) {
	for id, t := range b.told {
		r, there := f.records[id]
		switch {
		case !there:
			differ("action %s was shown to %s as %s, and is gone", id, t.who.name, t.last.State)
		case r.kind != t.last.Kind:
			differ("action %s was shown to %s as %s, and is %s", id, t.who.name, t.last.Kind, r.kind)
		case r.state != t.last.State || t.paid && r.state != paidaction.Paid:
			differ("action %s was shown to %s as %s, and is %s", id, t.who.name, t.last.State, r.state)
		}
	}
	for _, r := range f.records {
		if b.told[r.id] == nil && r.state == paidaction.Paid {
			differ("action %s (%s) is PAID, and nobody was told", r.id, r.kind)
		}
	}
}

// comparePayer: the payer's node has paid exactly the invoices whose actions are PAID, to the millisatoshi.
func comparePayer(f facts, differ differ) {
	by := map[string]record{}
	for _, r := range f.records {
		if r.hash == "" {
			continue
		}
		by[r.hash] = r
		p, tried := f.paid[r.hash]
		switch {
		case r.state != paidaction.Paid:
		case !tried || !p.Settled:
			differ("action %s (%s) is PAID, and the payer's node has not paid it: tried %t, failure %q, forgotten %t", r.id, r.kind, tried, p.Failure, f.forgotten[r.hash])
		case p.AmountMsat != r.received:
			differ("action %s (%s) was paid with %d msat, and %d are booked", r.id, r.kind, p.AmountMsat, r.received)
		}
	}
	for hash, p := range f.paid {
		r, ours := by[hash]
		switch {
		case !ours:
			differ("the payer's node has a payment %s of %d msat that belongs to no action", hash, p.AmountMsat)
		case p.Settled && r.state != paidaction.Paid:
			differ("the payer's node has paid %d msat for action %s (%s), which is %s", p.AmountMsat, r.id, r.kind, r.state)
		case !p.Settled && p.Failure == "" && !f.forgotten[hash]:
			differ("the payer's node is still paying for action %s (%s), which is %s", r.id, r.kind, r.state)
		}
	}
}

// compareReceiver: the receiver's node has received exactly what left as forwards and withdrawals, to the millisatoshi.
func compareReceiver(f facts, differ differ) {
	by := map[string]record{}
	for _, r := range f.records {
		if r.leaving == "" {
			continue
		}
		if !by[r.leaving].completed { // a failed payment may be tried once more under the same hash
			by[r.leaving] = r
		}
		got := f.received[r.leaving]
		if r.completed && (got.State != "SETTLED" || got.PaidMsat != r.left) {
			differ("%d msat left for action %s (%s), and the receiver's node has %+v", r.left, r.id, r.kind, got)
		}
	}
	for hash, got := range f.received {
		r, ours := by[hash]
		switch {
		case got.State == "ACCEPTED":
			differ("the receiver's node holds %d msat under %s", got.PaidMsat, hash)
		case got.State == "SETTLED" && !ours:
			differ("the receiver's node has %d msat under %s that left for no action", got.PaidMsat, hash)
		case got.State == "SETTLED" && (!r.completed || r.state != paidaction.Paid):
			differ("the receiver's node has %d msat of action %s (%s), which is %s", got.PaidMsat, r.id, r.kind, r.state)
		}
	}
}

// compareCredits: a person who buys and spends credits has what they were told they had bought, less what they were
// told they had spent.
func (b *book) compareCredits(f facts, differ differ) {
	own := map[string]int64{}
	for _, t := range b.told {
		switch {
		case t.last.State != paidaction.Paid:
		case t.last.Kind == "BUY_CREDITS":
			own[t.who.name] += t.last.Cost
		case t.last.Method == paidaction.FeeCredit:
			own[t.who.name] -= t.last.Cost
		}
	}
	for _, who := range slices.Sorted(maps.Keys(f.credits)) {
		if f.credits[who] != own[who] {
			differ("%s has %d msat of credits, and was told of %d", who, f.credits[who], own[who])
		}
	}
}
