package simulate

import (
	"math"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/simulate/simdb"
)

// tally is what must have been counted for an item.
type tally struct {
	msat, creditMsat, commentMsat, upvotes, micros, comments, downMsat, downvotes, boostMsat int64
}

// ballot is one person's zaps of one item in one direction.
type ballot struct {
	item, user int64
	down       bool
}

func (m *model) tally(item int64) *tally {
	if m.tallies[item] == nil {
		m.tallies[item] = &tally{}
	}
	return m.tallies[item]
}

// comment counts one comment below these items.
func (m *model) comment(above []int64) {
	for _, id := range above {
		m.tally(id).comments++
	}
}

func zapLeaves(m *model, a *attempt) {
	it := m.item(number(a.args["item"]))
	t := m.tally(it.id)
	t.msat += a.cost
	if a.method == "FEE_CREDIT" {
		t.creditMsat += a.cost
	}
	for _, id := range it.above {
		m.tally(id).commentMsat += a.cost
	}
	m.vote(a, it.id, false)
}

func downZapLeaves(m *model, a *attempt) {
	item := number(a.args["item"])
	m.tally(item).downMsat += a.cost
	m.vote(a, item, true)
}

// vote adds to somebody's zaps: the first of them is a vote, and together they weigh the logarithm of their sum.
func (m *model) vote(a *attempt, item int64, down bool) {
	if a.payer == nil {
		return
	}
	m.voted = append(m.voted, a)
	b := ballot{item, *a.payer, down}
	before := m.votes[b]
	m.votes[b] += a.cost
	t := m.tally(item)
	first, heavier := int64(0), weight(m.votes[b])-weight(before)
	if before == 0 {
		first = 1
	}
	if down {
		t.downvotes += first
		t.micros -= heavier
		return
	}
	t.upvotes += first
	t.micros += heavier
}

// weight is the logarithm of an amount in sats, in millionths.
func weight(msat int64) int64 {
	return int64(math.Round(1e6 * math.Log10(float64(max(msat/1000, 1)))))
}

func itemLeaves(m *model, a *attempt) {
	m.written = append(m.written, a)
	if parent := number(a.args["parent"]); parent != 0 {
		m.comment(append(slices.Clone(m.item(parent).above), parent))
	}
	m.boost(a, a.item, number(a.args["boost"])*1000)
}

func updateLeaves(m *model, a *attempt) {
	if a.args["body"] != nil {
		m.edits[a.item] = append(m.edits[a.item], a)
	}
	m.boost(a, a.item, number(a.args["boost"])*1000)
}

// checkItems compares the items that exist, and what each counts, with what was paid.
func (m *model) checkItems() error {
	w := m.world
	rows, err := w.database.queries().Items(w.ctx)
	if err != nil {
		return err
	}
	shown := map[int64]int64{} // by the action that paid for it
	for _, r := range rows {
		if r.State == "PAID" {
			shown[r.ActionID] = r.ID
		}
		found := tally{r.Msat, r.CreditMsat, r.CommentMsat, r.Upvotes, r.VoteMicros, r.Comments, r.DownMsat, r.Downvotes, r.BoostMsat}
		if want := *m.tally(r.ID); found != want {
			w.violate("counter", "item %d counts %+v, and should count %+v", r.ID, found, want)
		}
		m.checkText(r.ID, r.Body, r.EditedAt)
	}
	for _, a := range m.written {
		if shown[a.id] != a.item {
			w.violate("item", "action %d is paid, and its item %d is not shown", a.id, a.item)
		}
	}
	for _, a := range m.attempts {
		if item, ok := shown[a.id]; ok && a.state != "PAID" {
			w.violate("item", "item %d is shown, and action %d is %s", item, a.id, a.state)
		}
	}
	if left, err := w.database.queries().EditsLeft(w.ctx); err != nil || left > 0 {
		w.violate("item", "%d changes were neither taken over nor dropped (%v)", left, err)
	}
	return nil
}

// checkText: an item shows its last paid change. Which of two changes at about the same time was the last is decided by
// their lock.
func (m *model) checkText(item int64, body string, edited *time.Time) {
	edits := m.edits[item]
	if edited == nil {
		if len(edits) > 0 {
			m.world.violate("item", "action %d is paid, and item %d was never changed", edits[0].id, item)
		}
		return
	}
	said := func(a *attempt) bool { return a.args["body"] == body }
	if !slices.ContainsFunc(edits, func(a *attempt) bool { return said(a) && a.changed.Equal(*edited) }) {
		m.world.violate("item", "item %d says %q since %s, and nobody paid for that then", item, body, edited)
	}
	for _, a := range edits {
		alike := func(other *attempt) bool { return other != a && other.args["body"] == a.args["body"] }
		if !said(a) && !slices.ContainsFunc(edits, alike) && a.changed.Sub(*edited) > 2*time.Minute {
			m.world.violate("item", "item %d says %q, and was changed by action %d later", item, body, a.id)
		}
	}
}

// checkVotes: each zap of a known person is one vote event, and the events of one person on one item together weigh
// what their sum weighs.
func (m *model) checkVotes() error {
	w := m.world
	events, err := w.database.queries().VoteEvents(w.ctx)
	if err != nil {
		return err
	}
	weights := map[ballot]int64{}
	for _, e := range events {
		i := slices.IndexFunc(m.voted, func(a *attempt) bool { return a.id == e.ActionID })
		if i < 0 {
			w.violate("vote", "action %d counts as a vote, and is none", e.ActionID)
			continue
		}
		a := m.voted[i]
		down := a.kind.name == community.KindDownZap
		if down {
			weights[ballot{e.ItemID, *a.payer, down}] -= e.Micros
		} else {
			weights[ballot{e.ItemID, *a.payer, down}] += e.Micros
		}
		if author := m.item(e.ItemID).author; e.AuthorID == nil != (author == 0) || e.AuthorID != nil && *e.AuthorID != author || !e.At.Equal(a.changed) {
			w.violate("vote", "the vote of action %d is for another's item, or of another time", a.id)
		}
		if e.Credits != (a.method == "FEE_CREDIT") {
			w.violate("vote", "the vote of action %d, paid by %s, counts as one paid with credits: %t", a.id, a.method, e.Credits)
		}
	}
	if len(events) != len(m.voted) {
		w.violate("vote", "%d votes were counted, and should be %d", len(events), len(m.voted))
	}
	for b, msat := range m.votes {
		if weights[b] != weight(msat) {
			w.violate("vote", "the votes of user %d for item %d weigh %d, and should weigh %d", b.user, b.item, weights[b], weight(msat))
		}
	}
	return m.checkBounty()
}

// checkBounty: a bounty is paid exactly if its owner has zapped a single comment below it with as much.
func (m *model) checkBounty() error {
	rows, err := m.world.database.queries().Bounties(m.world.ctx)
	if err != nil {
		return err
	}
	met := map[int64]int64{} // comment by bounty
	for b, msat := range m.votes {
		for _, above := range m.item(b.item).above {
			if it := m.item(above); it.kind == "BOUNTY" && it.author == b.user && !b.down && msat >= bountySats*1000 {
				met[it.id] = b.item
			}
		}
	}
	for _, r := range rows {
		if met[r.ItemID] != r.CommentID || r.UserID != m.item(r.ItemID).author {
			m.world.violate("bounty", "the bounty of item %d counts as paid for comment %d", r.ItemID, r.CommentID)
		}
	}
	if len(rows) != len(met) {
		m.world.violate("bounty", "%d bounties are paid, and should be %d", len(rows), len(met))
	}
	return nil
}

// checkPolls: each paid vote is in its poll, and nobody has two votes there.
func (m *model) checkPolls() error {
	w := m.world
	rows, err := w.database.queries().PollVotes(w.ctx)
	if err != nil {
		return err
	}
	voters := map[int64]int{}
	for _, a := range m.pollVotes {
		if voters[*a.payer]++; voters[*a.payer] > 1 {
			w.violate("poll", "user %d has paid for %d votes in one poll", *a.payer, voters[*a.payer])
		}
		i := slices.IndexFunc(rows, func(r simdb.PollVotesRow) bool { return r.ActionID == a.id })
		if i < 0 || rows[i].ItemID != m.poll().id || rows[i].OptionID != number(a.args["option"]) || rows[i].UserID != *a.payer {
			w.violate("poll", "action %d is paid, and is no vote in its poll", a.id)
		}
	}
	if len(rows) != len(m.pollVotes) {
		w.violate("poll", "%d votes are counted in polls, and %d are paid", len(rows), len(m.pollVotes))
	}
	return nil
}

// spam: of the posts of one author within ten minutes each costs ten times as much as the one before, even if they come
// at the same moment.
func (m *model) spam() error {
	posts, err := m.world.database.queries().PaidPosts(m.world.ctx)
	if err != nil {
		return err
	}
	beside := map[int64]int64{}
	for _, a := range m.attempts {
		beside[a.id] = extras(a)
	}
	for i, last := range posts {
		least, dearest := int64(100), int64(0)
		for _, p := range posts[:i+1] {
			if *p.AuthorID == *last.AuthorID && last.CreatedAt.Sub(p.CreatedAt) < 10*time.Minute {
				least, dearest = least*10, max(dearest, p.CostMsat-beside[p.ActionID])
			}
		}
		if dearest < least {
			m.world.violate("price", "the posts of user %d until %s cost at most %d msat, and one of them should cost %d", *last.AuthorID, last.CreatedAt, dearest, least)
		}
	}
	return nil
}
