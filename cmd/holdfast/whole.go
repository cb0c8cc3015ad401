package main

import (
	"context"
	"encoding/hex"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// readWhole reads everything that is known of an action.
func readWhole(ctx context.Context, q *db.Queries, id int64) (*wholeAction, error) {
	row, err := q.GetAction(ctx, id)
	if err != nil {
		return nil, noSuchAction(id, err)
	}
	history, err := q.History(ctx, id)
	if err != nil {
		return nil, err
	}
	postings, err := q.PostingsOfAction(ctx, &id)
	if err != nil {
		return nil, err
	}
	a := row.PaidAction
	whole := &wholeAction{
		action: action{ID: a.ID, Kind: a.Kind, Flow: a.Flow, State: a.State, Attempt: a.Attempt, PayerID: a.PayerID,
			CostMsat: a.CostMsat, Deadline: a.Deadline, CreatedAt: a.CreatedAt, ChangedAt: a.ChangedAt, FailureCode: a.FailureCode},
		Method: a.Method, Genesis: a.GenesisID, Successor: a.SuccessorID, DeadlineHeight: a.DeadlineHeight,
		FailureMessage: a.FailureMessage, Args: a.Args, Result: a.Result,
		Node: row.Node, PaymentHash: hex.EncodeToString(row.PaymentHash), Bolt11: row.Bolt11,
		AmountMsat: row.AmountMsat, ReceivedMsat: row.ReceivedMsat,
	}
	for _, h := range history {
		whole.History = append(whole.History, historyStep{From: h.FromState, To: h.ToState, Fact: h.Fact, At: h.At})
	}
	for _, p := range postings {
		whole.Postings = append(whole.Postings, posting{From: ledger.Account(p.FromAccount).String(),
			To: ledger.Account(p.ToAccount).String(), Msat: p.Msat, Reason: p.Reason})
	}
	return whole, nil
}
