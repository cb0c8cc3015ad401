package community_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// makePoll makes a poll of three options, whose votes cost 5 sats, and returns it with the options' ids.
func makePoll(w *enginetest.World, author int64, closesAt *time.Time) (id int64, choice []int64) {
	w.Helper()
	id = w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Title: "which?",
		PollArgs: &community.PollArgs{Options: []string{"this", "that", "none"}, Price: 5, ClosesAt: closesAt}}, ""))
	for _, o := range options(w, id, nil) {
		choice = append(choice, o.ID)
	}
	return id, choice
}

// votes are the counts of a poll's options, and the options that the viewer voted for, as "index state".
func votes(w *enginetest.World, poll int64, viewer *int64) (counts, mine string) {
	w.Helper()
	for i, o := range options(w, poll, viewer) {
		counts += fmt.Sprint(o.Votes)
		if o.Mine != "" {
			mine += fmt.Sprintf("%d %s", i, o.Mine)
		}
	}
	return counts, mine
}

func TestVotesCountOnceTheyArePaid(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, rich, poor := w.User("author", 100*sat, 0), w.User("rich", 100*sat, 0), w.User("poor", 0, 0)
	poll, choice := makePoll(w, author, nil)
	see := func(when string, viewer *int64, wantCounts, wantMine string) {
		t.Helper()
		if counts, mine := votes(w, poll, viewer); counts != wantCounts || mine != wantMine {
			t.Errorf("%s: counts %s, own vote %q; want %s, %q", when, counts, mine, wantCounts, wantMine)
		}
	}
	w.Pay(rich, community.KindPollVote, community.PollVoteArgs{Option: choice[2]}, "")
	w.WantBalance(ledger.UserCredits(rich), 95*sat)
	see("to the voter", &rich, "001", "2 PAID")
	see("to another", &poor, "001", "")
	see("to the anonymous", nil, "001", "")

	pa := w.Pay(poor, community.KindPollVote, community.PollVoteArgs{Option: choice[0]}, "")
	see("pending, to the voter", &poor, "001", "0 PENDING")
	see("pending, to the author", &author, "001", "")
	fold(w)
	see("pending, when the others are counted", &author, "001", "")
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(poor), pa.ID); err != nil {
		t.Fatal(err)
	}
	see("failed", &poor, "001", "")
	again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(poor), pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	see("tried again", &poor, "001", "0 PENDING")
	payInvoice(w, again)
	see("paid", &poor, "101", "0 PAID")
	see("paid, to another", &rich, "101", "2 PAID")

	w.Pay(author, community.KindPollVote, community.PollVoteArgs{Option: choice[0]}, "") // is one of the people
	see("the author's own", &author, "201", "0 PAID")

	w.Pay(w.User("late", 100*sat, 0), community.KindPollVote, community.PollVoteArgs{Option: choice[2]}, "")
	for range 2 {
		fold(w)
		see("counted at the options", &author, "202", "0 PAID")
	}
	if n := w.Count(`SELECT sum(votes) FROM poll_option`) - w.Count(`SELECT count(*) FROM poll_vote WHERE counted`); n != 0 || w.Count(`SELECT count(*) FROM poll_vote WHERE NOT counted`) != 0 {
		t.Errorf("%d more votes are counted than are marked as counted, or some are not", n)
	}
	w.Pay(w.User("later", 100*sat, 0), community.KindPollVote, community.PollVoteArgs{Option: choice[2]}, "")
	see("one more than is counted", &author, "203", "0 PAID")
	w.WantConserved()
}

// Whoever takes a failed vote back and votes anew cannot have the failed one, too.
func TestFailedVoteCannotComeBackAsASecond(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	voter := w.User("voter", 0, 0)
	poll, choice := makePoll(w, w.User("author", 100*sat, 0), nil)
	failed := w.Pay(voter, community.KindPollVote, community.PollVoteArgs{Option: choice[0]}, "")
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(voter), failed.ID); err != nil {
		t.Fatal(err)
	}
	payInvoice(w, w.Pay(voter, community.KindPollVote, community.PollVoteArgs{Option: choice[1]}, ""))
	_, err := w.Engine.Retry(w.Ctx, enginetest.Caller(voter), failed.ID, "", paidaction.Terms{}, nil)
	w.WantRefusal(err, community.CodeAlreadyVoted)
	w.WantState(failed.ID, paidaction.Failed)
	if counts, mine := votes(w, poll, &voter); counts != "010" || mine != "1 PAID" {
		t.Errorf("%s, %s", counts, mine)
	}
}

// A poll counts what was voted before it closed, paid a little later; and takes nothing more.
func TestClosedPoll(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	early, late := w.User("early", 0, 0), w.User("late", 100*sat, 0)
	closes := w.Clock.Now().Add(time.Minute)
	poll, choice := makePoll(w, w.User("author", 100*sat, 0), &closes)
	given := w.Pay(early, community.KindPollVote, community.PollVoteArgs{Option: choice[0]}, "")
	w.Clock.Advance(time.Minute)
	_, err := w.Try(late, community.KindPollVote, community.PollVoteArgs{Option: choice[1]}, "", "")
	w.WantRefusal(err, community.CodePollClosed)
	payInvoice(w, given)
	if counts, _ := votes(w, poll, nil); counts != "100" {
		t.Errorf("counts %s", counts)
	}
	w.WantBalance(ledger.UserCredits(late), 100*sat)
}

func TestVotesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, voter, poor := w.User("author", 100*sat, 0), w.User("voter", 100*sat, 0), w.User("poor", 0, 0)
	poll, choice := makePoll(w, author, nil)
	_, unpaid := makePoll(w, poor, nil)
	gone, deleted := makePoll(w, w.User("gone", 100*sat, 0), nil)
	mustExec(w, `UPDATE item SET deleted_at = $2 WHERE id = $1`, gone, w.Clock.Now())
	w.Pay(voter, community.KindPollVote, community.PollVoteArgs{Option: choice[0]}, "")
	actions := w.Count(`SELECT count(*) FROM paid_action`)
	for name, c := range map[string]struct {
		user   int64
		option int64
		code   paidaction.Code
	}{
		"twice":                {voter, choice[0], community.CodeAlreadyVoted},
		"for another, too":     {voter, choice[1], community.CodeAlreadyVoted},
		"for nothing":          {voter, 999, paidaction.CodeNotFound},
		"for no option":        {voter, 0, paidaction.CodeNotFound},
		"in an unpaid poll":    {voter, unpaid[0], paidaction.CodeNotFound},
		"in one's own, unpaid": {poor, unpaid[0], community.CodeNotPaid},
		"in a deleted poll":    {voter, deleted[0], paidaction.CodeNotFound},
		"without signing in":   {0, choice[0], paidaction.CodeUnauthenticated},
	} {
		_, err := w.Try(c.user, community.KindPollVote, community.PollVoteArgs{Option: c.option}, "", "")
		if w.WantRefusal(err, c.code); t.Failed() {
			t.Fatal(name)
		}
	}
	w.WantBalance(ledger.UserCredits(voter), 95*sat)
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != actions {
		t.Error("a refused vote left an action behind")
	}
	if counts, _ := votes(w, poll, nil); counts != "100" {
		t.Errorf("counts %s", counts)
	}
}

// Two votes of one person at once, from two balances: one is given, and one is paid for. Both have come as far as they can
// before either may go on.
func TestVotesAtOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	voter := w.User("voter", 100*sat, 100*sat)
	poll, choice := makePoll(w, w.User("author", 100*sat, 0), nil)
	barrier, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := barrier.Exec(w.Ctx, `LOCK TABLE paid_action IN EXCLUSIVE MODE`); err != nil { // nothing is inserted, all can be read
		t.Fatal(err)
	}
	errs := make(chan error)
	for i, method := range []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats} {
		go func() {
			_, err := w.Try(voter, community.KindPollVote, community.PollVoteArgs{Option: choice[i]}, method, "")
			errs <- err
		}()
	}
	w.AwaitBlocked(2)
	if err := barrier.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	given := 0
	for range 2 {
		if err := <-errs; err == nil {
			given++
		} else {
			w.WantRefusal(err, community.CodeAlreadyVoted)
		}
	}
	if given != 1 || w.Count(`SELECT count(*) FROM poll_vote`) != 1 || w.Count(`SELECT count(*) FROM paid_action WHERE kind = 'POLL_VOTE'`) != 1 {
		t.Errorf("%d votes were given", given)
	}
	if _, mine := votes(w, poll, &voter); mine == "" {
		t.Error("the voter does not see their vote")
	}
	w.WantConserved()
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 || w.Faults.Conflicts != 0 {
		t.Errorf("%d deadlocks, %d conflicts", n, w.Faults.Conflicts)
	}
}

// The database itself refuses a second vote, whatever the code does.
func TestASecondVoteCannotBeStored(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	voter := w.User("voter", 100*sat, 0)
	_, choice := makePoll(w, w.User("author", 100*sat, 0), nil)
	w.Pay(voter, community.KindPollVote, community.PollVoteArgs{Option: choice[0]}, "")
	other := w.Pay(voter, community.KindDonate, community.DonateArgs{Sats: 1}, "")
	_, err := w.Pool.Exec(w.Ctx, `INSERT INTO poll_vote SELECT $1, item_id, $2, user_id, 'PENDING' FROM poll_vote`, other.ID, choice[1])
	if err == nil {
		t.Error("it was stored")
	}
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO poll_vote SELECT $1, item_id, $2, user_id, 'FAILED' FROM poll_vote`, other.ID, choice[1]); err != nil {
		t.Error(err)
	}
}
