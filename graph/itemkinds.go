package graph

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func (items) Poll(ctx context.Context, i *db.ItemsByIDRow) (*schema.Poll, error) {
	if i.PollMsat == nil {
		return nil, nil
	}
	options, err := loadersOf(ctx).polls.Load(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	poll := &schema.Poll{Price: paidaction.Msat(*i.PollMsat).Sats(), ClosesAt: i.PollClosesAt, Options: options}
	for _, o := range options {
		if o.Mine != "" {
			poll.MyVote = &schema.MyVote{Option: o, State: o.Mine}
		}
	}
	return poll, nil
}

// loadPolls reads the options of polls, in order for each poll, with the viewer's own votes. It needs one query for all
// of them.
func loadPolls(ctx context.Context, q *db.Queries, viewer *int64, ids []int64) ([][]*db.PollOptionsRow, []error) {
	rows, err := q.PollOptions(ctx, db.PollOptionsParams{Polls: ids, Viewer: viewer})
	if err != nil {
		return nil, []error{fmt.Errorf("load polls: %w", err)}
	}
	found := map[int64][]*db.PollOptionsRow{}
	for _, row := range rows {
		found[row.ItemID] = append(found[row.ItemID], &row)
	}
	ordered := make([][]*db.PollOptionsRow, len(ids))
	for i, id := range ids {
		ordered[i] = found[id]
	}
	return ordered, nil
}

func (items) Bounty(ctx context.Context, i *db.ItemsByIDRow) (*schema.Bounty, error) {
	if i.BountyMsat == nil {
		return nil, nil
	}
	bounty := &schema.Bounty{Sats: paidaction.Msat(*i.BountyMsat).Sats(), PaidAt: i.BountyPaidAt}
	if i.BountyCommentID == nil {
		return bounty, nil
	}
	var err error
	bounty.PaidTo, err = loadersOf(ctx).items.Load(ctx, *i.BountyCommentID)
	return bounty, err
}

func (items) Job(_ context.Context, i *db.ItemsByIDRow) (*schema.Job, error) {
	if i.JobCompany == nil {
		return nil, nil
	}
	return &schema.Job{Company: *i.JobCompany, Location: *i.JobLocation}, nil
}
