package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/99designs/gqlgen/graphql"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// action is a generated type of an action: a pointer to a struct that embeds what all actions have.
type action[T any] interface {
	*T
	schema.PaidAction
	Base() *schema.BasePaidAction
}

// pay asks the engine for an action. The arguments are those of the field being resolved, by their names in the schema;
// four of them are about the payment and the payer. Nothing slow may come before Engine.Pay, which takes the request's
// place among those of its payer. Only the caller's key is looked up earlier, outside the resolvers.
func pay[T any, A action[T]](ctx context.Context, r *resolver, kind string) (*T, error) {
	args := maps.Clone(graphql.GetFieldContext(ctx).Args)
	if err := r.meters.keeping(sessionOf(ctx), textOf(args), r.Now()); err != nil {
		return nil, err
	}
	secret, _ := args["secret"].(*string) // never stored with the other arguments
	request := paidaction.Request{Kind: kind, Args: args, Caller: r.payer(ctx, secret)}
	key, _ := args["idempotencyKey"].(*string)
	method, _ := args["paymentMethod"].(*paidaction.Method)
	most, _ := args["maxCostSats"].(*int64)
	var err error
	if request.Key, request.Terms, err = terms(key, method, most); err != nil {
		return nil, err
	}
	for _, name := range []string{"secret", "idempotencyKey", "paymentMethod", "maxCostSats"} {
		delete(args, name)
	}
	pa, err := r.Engine.Pay(ctx, request)
	if err != nil {
		return nil, err
	}
	r.Log.DebugContext(ctx, "an action was asked for", "action", pa.ID, "kind", pa.Kind, "flow", pa.Flow, "state", pa.State)
	return shown[T, A](r.inTime(pa))
}

// payer is a caller who begins something, as long as their key is good.
func (r *resolver) payer(ctx context.Context, secret *string) paidaction.Caller {
	c := caller(ctx, secret)
	c.May = r.holdKey
	return c
}

// textOf is how many bytes of text there are among the arguments of a field.
func textOf(args map[string]any) (bytes int) {
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			bytes += len(arg)
		case *string:
			if arg != nil {
				bytes += len(*arg)
			}
		case []string:
			for _, one := range arg {
				bytes += len(one)
			}
		}
	}
	return bytes
}

// terms are what a payer agrees to, and the key with which they may repeat the request; empty: none. most is in sats.
func terms(key *string, method *paidaction.Method, most *int64) (idempotencyKey string, t paidaction.Terms, err error) {
	if key != nil {
		if idempotencyKey = *key; idempotencyKey == "" {
			return "", t, paidaction.Errorf(paidaction.CodeInvalidInput, "An idempotency key cannot be empty. Leave it out, or send one.")
		}
	}
	if method != nil {
		t.Method = *method
	}
	switch {
	case most == nil || *most > math.MaxInt64/1000: // no price is as high
	case *most < 0:
		return idempotencyKey, t, paidaction.Errorf(paidaction.CodeInvalidAmount, "maxCostSats cannot be negative.")
	default:
		t.MaxCost = new(paidaction.Msat(*most * 1000))
	}
	return idempotencyKey, t, nil
}

// shown returns an action as the generated type of its kind.
func shown[T any, A action[T]](pa *paidaction.PaidAction) (*T, error) {
	t := new(T)
	if pa.Result != nil {
		// The JSON tags of the generated types are the names of the schema, and the results in them are the actions'
		// own types.
		if err := json.Unmarshal(slices.Concat([]byte(`{"result":`), pa.Result, []byte("}")), t); err != nil {
			return nil, fmt.Errorf("read the result of action %d: %w", pa.ID, err)
		}
	}
	*A(t).Base() = base(pa)
	return t, nil
}

// boxed is shown for callers that do not know the type.
func boxed[T any, A action[T]](pa *paidaction.PaidAction) (schema.PaidAction, error) {
	t, err := shown[T, A](pa)
	if err != nil {
		return nil, err
	}
	return A(t), nil
}

// show returns an action of any kind, also of one that only a newer program has: one such action must not break the list
// that it is in.
func (r *resolver) show(pa *paidaction.PaidAction, err error) (schema.PaidAction, error) {
	if err != nil {
		return nil, err
	}
	as, ok := r.kinds[pa.Kind]
	if !ok {
		as = boxed[schema.OtherAction]
	}
	return as(r.inTime(pa))
}

// inTime returns an action with the deadline of whoever moves next. For a failed action that is its payer, who may
// retry it; the deadline of its invoice no longer matters.
func (r *resolver) inTime(pa *paidaction.PaidAction) *paidaction.PaidAction {
	if !pa.State.Terminal() {
		return pa
	}
	ended := *pa
	ended.Deadline = r.Engine.RetryUntil(pa)
	return &ended
}

// showOwn returns an action of the viewer's own, or nil if it is not theirs.
func (r *resolver) showOwn(ctx context.Context, id int64) (schema.PaidAction, error) {
	pa, err := loadersOf(ctx).payments.Load(ctx, id)
	if pa == nil || err != nil {
		return nil, err
	}
	return r.show(pa, nil)
}

// base returns what all actions have in common.
func base(pa *paidaction.PaidAction) schema.BasePaidAction {
	b := schema.BasePaidAction{
		ID: pa.ID, Kind: pa.Kind, State: pa.State, PaymentMethod: pa.Method, CostMsat: pa.Cost, CostSats: pa.Cost.CeilSats(),
		Deadline: pa.Deadline, Attempt: pa.Attempt, GenesisID: pa.Genesis, SuccessorID: pa.Successor,
		CreatedAt: pa.CreatedAt, ChangedAt: pa.ChangedAt,
	}
	if pa.Secret != "" {
		b.Secret = &pa.Secret
	}
	if pa.Failure != nil {
		b.Failure = &schema.Failure{Code: string(pa.Failure.Code), Message: pa.Failure.Message}
	}
	if i := pa.Invoice; i != nil {
		b.Invoice = &schema.Invoice{PaymentHash: i.Hash.String(), AmountMsat: i.Amount, Hold: i.Hold, ExpiresAt: i.ExpiresAt}
		if i.Bolt11 != "" {
			b.Invoice.Bolt11 = &i.Bolt11
		}
		if i.Received != 0 {
			b.Invoice.ReceivedMsat = &i.Received
		}
	}
	return b
}

func (m mutations) RetryPaidAction(ctx context.Context, id int64, key *string, method *paidaction.Method, most *int64, secret *string) (schema.PaidAction, error) {
	idempotencyKey, t, err := terms(key, method, most)
	if err != nil {
		return nil, err
	}
	return m.show(m.Engine.Retry(ctx, m.payer(ctx, secret), id, idempotencyKey, t, func(failed *paidaction.PaidAction) error {
		return m.meters.keeping(sessionOf(ctx), len(failed.Args), m.Now()) // each attempt stores the arguments again
	}))
}

func (m mutations) CancelInvoice(ctx context.Context, id int64, secret *string) (schema.PaidAction, error) {
	// The node is asked each time.
	if err := m.meters.paying(sessionOf(ctx), m.Now()); err != nil {
		return nil, err
	}
	return m.show(m.Engine.Cancel(ctx, caller(ctx, secret), id))
}

func (q queries) PaidAction(ctx context.Context, id int64, secret *string) (schema.PaidAction, error) {
	return q.show(q.Engine.Get(ctx, caller(ctx, secret), id)) // read together with others, with few connections
}

func (q queries) PaidActions(ctx context.Context, first int, after *int64) (*schema.PaidActionPage, error) {
	if err := q.Limits.checkList(first); err != nil {
		return nil, err
	}
	list, err := inTurn(ctx, q.reading, func() ([]*paidaction.PaidAction, error) {
		return q.Engine.List(ctx, caller(ctx, nil), orElse(after, math.MaxInt64), int32(first)+1)
	})
	if err != nil {
		return nil, err
	}
	page := &schema.PaidActionPage{}
	list, page.Next = cut(list, first, func(pa *paidaction.PaidAction) int64 { return pa.ID })
	for _, pa := range list {
		node, err := q.show(pa, nil)
		if err != nil {
			return nil, err
		}
		page.Nodes = append(page.Nodes, node)
	}
	return page, nil
}

// cut removes the extra row from a page: if it is there, another page follows.
func cut[T any](rows []T, first int, id func(T) int64) (page []T, next *int64) {
	if len(rows) <= first {
		return rows, nil
	}
	return rows[:first], new(id(rows[first-1]))
}

func orElse[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
