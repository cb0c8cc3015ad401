package graph

import (
	"context"

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
