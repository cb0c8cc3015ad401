package community_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// itemsOfAllKinds has one of each kind but the comment, which needs a parent.
var itemsOfAllKinds = map[string]community.ItemCreateArgs{
	"POST":   {Title: "a post", Body: "text"},
	"LINK":   {Title: "a link", URL: new("https://example.org/a?b=c#d")},
	"POLL":   {Title: "a poll", PollArgs: &community.PollArgs{Options: []string{"this", "that"}, Price: 1}},
	"BOUNTY": {Title: "a bounty", Bounty: new(int64(100))},
	"JOB":    {Title: "a job", JobArgs: &community.JobArgs{Company: "Acme", Location: "anywhere"}},
	"BIO":    {Bio: new("I am who I am")},
}

// The flows of a comment are among those of every action. Of the other kinds each is tried again once, which takes it through all
// it can be seen as, and performed once while its payment is held.
func TestEveryKindOfItem(t *testing.T) {
	t.Parallel()
	for kind, args := range itemsOfAllKinds {
		for method, play := range map[paidaction.Method]func(*drive){
			paidaction.Optimistic: (*drive).triedAgain, paidaction.Pessimistic: (*drive).paidByInvoice,
		} {
			t.Run(kind+"/"+string(method), func(t *testing.T) {
				t.Parallel()
				w := enginetest.New(t, paidaction.Settings{})
				d := &drive{World: w, method: method, kind: community.KindItemCreate, payer: w.User("payer", 0, 0), other: w.User("somebody_else", 0, 0)}
				d.scene = &scene{args: args, cost: sat, paid: map[ledger.Account]int64{ledger.RewardSats: sat},
					see: func(viewer *int64) any { return seeItems(w, 1, 2)(viewer) }}
				play(d)
				d.wantNothingLeft()
				w.WantConserved()
				if got := item(w, 1); got.Kind != kind {
					t.Errorf("it is a %s", got.Kind)
				}
			})
		}
	}
}
