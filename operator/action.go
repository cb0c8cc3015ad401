package operator

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Action is a row in a list of actions.
type Action struct {
	ID          int64      `json:"id"`
	Kind        string     `json:"kind"`
	Flow        string     `json:"flow"`
	State       string     `json:"state"`
	Attempt     int16      `json:"attempt"`
	PayerID     *int64     `json:"payer"` // null is the anonymous payer
	CostMsat    int64      `json:"cost_msat"`
	Deadline    *time.Time `json:"deadline"` // null: it has ended
	CreatedAt   time.Time  `json:"created_at"`
	ChangedAt   time.Time  `json:"changed_at"`
	FailureCode *string    `json:"failure"`
}

// Newest lists actions, newest first, from below an id: those in one state, or all of them if it is empty. However long
// the history is, it reads little more than what it lists, or than all that is open.
func Newest(ctx context.Context, q *db.Queries, state paidaction.State, before int64, page int32) ([]Action, error) {
	switch {
	case state == "":
		rows, err := q.ListActions(ctx, db.ListActionsParams{Before: before, Page: page})
		return actionsOf(rows, func(row db.ListActionsRow) Action { return Action(row) }), err
	case !state.Terminal():
		rows, err := q.NewestOpen(ctx, db.NewestOpenParams{State: string(state), Before: before, Page: page})
		return actionsOf(rows, func(row db.NewestOpenRow) Action { return Action(row) }), err
	case state == paidaction.Paid:
		rows, err := q.NewestPaid(ctx, db.NewestPaidParams{Before: before, Page: page})
		return actionsOf(rows, func(row db.NewestPaidRow) Action { return Action(row) }), err
	default:
		rows, err := q.NewestUnpaid(ctx, db.NewestUnpaidParams{State: string(state), Before: before, Page: page})
		return actionsOf(rows, func(row db.NewestUnpaidRow) Action { return Action(row) }), err
	}
}

func actionsOf[Row any](rows []Row, action func(Row) Action) []Action {
	actions := make([]Action, len(rows))
	for i, row := range rows {
		actions[i] = action(row)
		actions[i].clear()
	}
	return actions
}

// clear removes what the row still has and what no longer counts: the deadline of an action that has ended, and the
// failure code of one that was paid, unless its payment was written off. Such an action was to be canceled, but was paid
// all the same. Its history still has the cancellation.
func (a *Action) clear() {
	writtenOff := a.FailureCode != nil && *a.FailureCode == string(paidaction.WrittenOff)
	if a.State == string(paidaction.Paid) && !writtenOff {
		a.FailureCode = nil
	}
	if paidaction.State(a.State).Terminal() {
		a.Deadline = nil
	}
}

// WholeAction is an action with everything that an operator may see of it, which excludes the preimage and the code of an
// invite.
type WholeAction struct {
	Action
	PayerName      *string         `json:"payer_name"` // the commands about users take it
	Method         string          `json:"method"`
	Genesis        *int64          `json:"genesis"`
	Successor      *int64          `json:"successor"`
	DeadlineHeight *int32          `json:"deadline_height"`
	FailureMessage *string         `json:"failure_message"`
	Args           json.RawMessage `json:"args"`
	Result         json.RawMessage `json:"result"`
	Node           *string         `json:"node"`
	PaymentHash    string          `json:"payment_hash,omitempty"`
	Bolt11         *string         `json:"bolt11"`
	AmountMsat     *int64          `json:"amount_msat"`
	ReceivedMsat   *int64          `json:"received_msat"`
	Archived       bool            `json:"archived"` // its history and postings are archived, and cannot be shown here
	History        []Step          `json:"history"`
	Postings       []Posting       `json:"postings"`
}

// Step is a step that an action has taken.
type Step struct {
	From *string   `json:"from"`
	To   string    `json:"to"`
	Fact string    `json:"fact"`
	At   time.Time `json:"at"`
}

// Posting is a transfer booked for an action.
type Posting struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Msat   int64  `json:"msat"`
	Reason string `json:"reason"`
}

// ReadAction reads everything that is known of an action; pgx.ErrNoRows if there is none with this id.
func ReadAction(ctx context.Context, q *db.Queries, id int64) (*WholeAction, error) {
	row, err := q.GetAction(ctx, id)
	if err != nil {
		return nil, err
	}
	history, err := q.Histories(ctx, []int64{id})
	if err != nil {
		return nil, err
	}
	postings, err := q.PostingsOfAction(ctx, &id)
	if err != nil {
		return nil, err
	}
	archivedTo, err := q.ArchivedTo(ctx)
	if err != nil {
		return nil, err
	}
	a := row.PaidAction
	payer, err := payerName(ctx, q, a.PayerID)
	if err != nil {
		return nil, err
	}
	args, err := shownArgs(a)
	if err != nil {
		return nil, err
	}
	whole := &WholeAction{
		Action: Action{ID: a.ID, Kind: a.Kind, Flow: a.Flow, State: a.State, Attempt: a.Attempt, PayerID: a.PayerID,
			CostMsat: a.CostMsat, Deadline: a.Deadline, CreatedAt: a.CreatedAt, ChangedAt: a.ChangedAt, FailureCode: a.FailureCode},
		PayerName: payer, Method: a.Method, Genesis: a.GenesisID, Successor: a.SuccessorID, DeadlineHeight: a.DeadlineHeight,
		FailureMessage: a.FailureMessage, Args: args, Result: a.Result,
		Node: row.Node, PaymentHash: hex.EncodeToString(row.PaymentHash), Bolt11: row.Bolt11,
		AmountMsat: row.AmountMsat, ReceivedMsat: row.ReceivedMsat, Archived: a.ID <= archivedTo,
		History: []Step{}, Postings: []Posting{}, // in JSON a list, also where there is nothing
	}
	if whole.clear(); whole.FailureCode == nil {
		whole.FailureMessage = nil
	}
	if whole.Deadline == nil {
		whole.DeadlineHeight = nil
	}
	for _, h := range history {
		whole.History = append(whole.History, step(h))
	}
	for _, p := range postings {
		whole.Postings = append(whole.Postings, Posting{From: ledger.Account(p.FromAccount).String(),
			To: ledger.Account(p.ToAccount).String(), Msat: p.Msat, Reason: p.Reason})
	}
	return whole, nil
}

// shownArgs are the arguments without the code of an invite: whoever has it can take the gifts that are left.
func shownArgs(a db.PaidAction) (json.RawMessage, error) {
	if a.Kind != community.KindInviteGift {
		return a.Args, nil
	}
	var shown map[string]json.RawMessage
	if err := json.Unmarshal(a.Args, &shown); err != nil {
		return nil, fmt.Errorf("read the arguments of action %d: %w", a.ID, err)
	}
	delete(shown, "code")
	return json.Marshal(shown)
}

func payerName(ctx context.Context, q *db.Queries, payer *int64) (*string, error) {
	if payer == nil {
		return nil, nil
	}
	users, err := q.UsersByID(ctx, []int64{*payer})
	if err != nil || len(users) == 0 {
		return nil, err
	}
	return &users[0].Name, nil
}

func step(h db.ActionHistory) Step {
	return Step{From: h.FromState, To: h.ToState, Fact: h.Fact, At: h.At}
}
