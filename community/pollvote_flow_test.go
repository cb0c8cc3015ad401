package community_test

import (
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A vote for 10 sats in a territory's poll.
func pollVoteScene(w *enginetest.World, _ int64, m paidaction.Method) *scene {
	author, founder := w.User("author", 100*sat, 0), w.User("founder", 0, 0)
	territory(w, "bitcoin", founder)
	poll := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Title: "which?", Territory: "bitcoin",
		PollArgs: &community.PollArgs{Options: []string{"this", "that"}, Price: 10}}, paidaction.FeeCredit))
	return &scene{
		args: community.PollVoteArgs{Option: options(w, poll, nil)[0].ID}, cost: 10 * sat,
		paid: map[ledger.Account]int64{ledger.User(founder, assetOf(m)): 7 * sat, ledger.Rewards(assetOf(m)): 3 * sat},
		see:  func(viewer *int64) any { return options(w, poll, viewer) },
	}
}

// options are a poll's, as somebody sees them.
func options(w *enginetest.World, poll int64, viewer *int64) []db.PollOptionsRow {
	w.Helper()
	rows, err := db.New(w.Pool).PollOptions(w.Ctx, db.PollOptionsParams{Polls: []int64{poll}, Viewer: viewer})
	if err != nil {
		w.Fatal(err)
	}
	return rows
}
