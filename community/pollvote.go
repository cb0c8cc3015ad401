package community

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// PollVote votes in a poll, once per person; its author may vote too. Nobody else sees who voted for what.
type PollVote struct {
	paidaction.Base[PollVoteArgs, PollVoteResult]
	Settings Settings
}

// PollVoteArgs say which option; that determines the poll.
type PollVoteArgs struct {
	Option int64 `json:"option"`
}

// PollVoteResult is what was voted for.
type PollVoteResult struct {
	Item   int64 `json:"item"`
	Option int64 `json:"option"`
}

// KindPollVote names the action.
const KindPollVote = "POLL_VOTE"

// Spec follows the table of spec 02 §2.3.
func (PollVote) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindPollVote, Again: true, Methods: []paidaction.Method{
		paidaction.FeeCredit, paidaction.RewardSats, paidaction.Optimistic}}
}

// Cost is the poll's price. The voter is locked, so that of two votes at once only one finds none before it. A vote
// that is paid after the poll closes still counts.
func (PollVote) Cost(ctx context.Context, tx *paidaction.Tx, a PollVoteArgs) (paidaction.Msat, error) {
	poll, err := pollOf(ctx, tx, a.Option)
	if err != nil {
		return 0, err
	}
	if poll.PollClosesAt != nil && !poll.PollClosesAt.After(tx.Now) {
		return 0, paidaction.Errorf(CodePollClosed, "This poll is closed.")
	}
	if _, err := tx.DB.LockUser(ctx, *tx.Payer); err != nil {
		return 0, fmt.Errorf("lock the voter: %w", err)
	}
	voted, err := tx.DB.HasVoted(ctx, db.HasVotedParams{ItemID: poll.ID, UserID: *tx.Payer})
	if err != nil {
		return 0, fmt.Errorf("look for a vote: %w", err)
	}
	if voted {
		return 0, paidaction.Errorf(CodeAlreadyVoted, "You have already voted in this poll. You can cancel a vote that you have not paid yet.")
	}
	return paidaction.Msat(*poll.PollMsat), nil
}

// pollOf is the poll that offers an option, if everybody can see the poll.
func pollOf(ctx context.Context, tx *paidaction.Tx, option int64) (db.Item, error) {
	o, err := tx.DB.GetPollOption(ctx, option)
	if errors.Is(err, pgx.ErrNoRows) {
		return db.Item{}, paidaction.Errorf(paidaction.CodeNotFound, "There is no such option.")
	}
	if err != nil {
		return db.Item{}, fmt.Errorf("read option %d: %w", option, err)
	}
	return visibleItem(ctx, tx, o.ItemID)
}

// Perform notes the vote as pending.
func (PollVote) Perform(ctx context.Context, tx *paidaction.Tx, a PollVoteArgs) (PollVoteResult, error) {
	poll, err := pollOf(ctx, tx, a.Option)
	if err != nil {
		return PollVoteResult{}, err
	}
	err = tx.DB.InsertPollVote(ctx, db.InsertPollVoteParams{ActionID: tx.Action, ItemID: poll.ID, OptionID: a.Option, UserID: *tx.Payer})
	if err != nil {
		return PollVoteResult{}, fmt.Errorf("insert the vote: %w", err)
	}
	return PollVoteResult{Item: poll.ID, Option: a.Option}, nil
}

// OnPaid counts the vote, and hands out the fee.
func (v PollVote) OnPaid(ctx context.Context, tx *paidaction.Tx, _ PollVoteArgs, r PollVoteResult) error {
	if err := tx.DB.MarkPollVote(ctx, db.MarkPollVoteParams{ActionID: tx.Action, State: statePaid}); err != nil {
		return fmt.Errorf("mark the vote: %w", err)
	}
	poll, err := tx.DB.GetItem(ctx, r.Item)
	if err != nil {
		return fmt.Errorf("read the poll: %w", err)
	}
	return payFee(ctx, tx, poll.Territory, tx.Cost, v.Settings)
}

// OnFail lets the payer vote again.
func (PollVote) OnFail(ctx context.Context, tx *paidaction.Tx, _ PollVoteArgs, _ PollVoteResult) error {
	if err := tx.DB.MarkPollVote(ctx, db.MarkPollVoteParams{ActionID: tx.Action, State: stateFailed}); err != nil {
		return fmt.Errorf("mark the vote: %w", err)
	}
	return nil
}

// Retry lets the new attempt pay for the vote.
func (PollVote) Retry(ctx context.Context, tx *paidaction.Tx, _ PollVoteArgs, r PollVoteResult) (PollVoteResult, error) {
	n, err := tx.DB.RepointPollVote(ctx, db.RepointPollVoteParams{ActionID: tx.Action, Previous: tx.Previous})
	return r, repointed(tx, "vote", n, err)
}

// Describe is what the payer's wallet shows.
func (PollVote) Describe(PollVoteArgs) string { return "vote in a poll" }
