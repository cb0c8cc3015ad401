package paidaction_test

import (
	"context"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// amend is something that only the payer of an earlier action may do.
type amend struct {
	paidaction.Base[amendArgs, struct{}]
}

type amendArgs struct{ Action int64 }

func (amend) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: "AMEND", Anonable: true, Methods: []paidaction.Method{paidaction.FeeCredit, paidaction.Pessimistic}}
}

func (amend) Cost(ctx context.Context, tx *paidaction.Tx, a amendArgs) (paidaction.Msat, error) {
	switch mine, err := tx.Proves(ctx, a.Action); {
	case err != nil:
		return 0, err
	case !mine:
		return 0, paidaction.Errorf(paidaction.CodeForbidden, "This is not yours.")
	}
	return 1000, nil
}

func (amend) Perform(context.Context, *paidaction.Tx, amendArgs) (struct{}, error) {
	return struct{}{}, nil
}

func (amend) OnPaid(_ context.Context, tx *paidaction.Tx, _ amendArgs, _ struct{}) error {
	return tx.Pay(ledger.RewardSats, tx.Cost, "amended")
}

func (amend) Describe(amendArgs) string { return "amend" }

// An anonymous payer's secret proves that an earlier action is theirs: while they ask, when the payment is held, and when they try
// again. It is stored nowhere.
func TestSecretProvesAnEarlierAction(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(amend{}))
	donate := func(user int64) *paidaction.PaidAction {
		return w.Pay(user, "DONATE", map[string]int64{"sats": 1}, "")
	}
	first, other := donate(0), donate(0)
	known := donate(w.User("known", 10_000, 0))
	ask := func(action int64, secret string) (*paidaction.PaidAction, error) {
		c := enginetest.Caller(0)
		c.Secret = secret
		return w.Engine.Pay(w.Ctx, paidaction.Request{Kind: "AMEND", Args: amendArgs{action}, Caller: c})
	}
	for name, wrong := range map[string]struct {
		action int64
		secret string
	}{
		"none":             {first.ID, ""},
		"of another":       {first.ID, other.Secret},
		"of a known payer": {known.ID, w.Engine.SecretOf(known.ID)},
		"of nothing":       {1 << 40, w.Engine.SecretOf(1 << 40)},
	} {
		if _, err := ask(wrong.action, wrong.secret); err == nil {
			t.Errorf("secret %s: accepted", name)
		} else {
			w.WantRefusal(err, paidaction.CodeForbidden)
		}
	}
	pa, err := ask(first.ID, first.Secret)
	if err != nil {
		t.Fatal(err)
	}
	c := paidaction.Caller{Secret: pa.Secret}
	if _, err := w.Engine.Cancel(w.Ctx, c, pa.ID); err != nil {
		t.Fatal(err)
	}
	again, err := w.Engine.Retry(w.Ctx, c, pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pay(w, again, simnode.Payment{})
	w.Drain()
	w.Advance(again.ID)
	w.Drain()
	w.WantState(again.ID, paidaction.Paid)
	var rows strings.Builder
	for _, table := range []string{"paid_action", "invoice", "action_history"} {
		var text string
		if err := w.Pool.QueryRow(w.Ctx, `SELECT coalesce(string_agg(x::text, ' '), '') FROM `+table+` x`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		rows.WriteString(text)
	}
	if strings.Contains(rows.String(), first.Secret) {
		t.Error("the secret is stored")
	}
}
