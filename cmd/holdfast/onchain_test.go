package main

import (
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// An operator says what the chain has shown of a payment that LND counts.
func TestOnChain(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	post := func(title string) *paidaction.PaidAction {
		return w.Pay(user, community.KindItemCreate, community.ItemCreateArgs{Title: title}, paidaction.Optimistic)
	}
	arrived, lost, open := post("arrived"), post("lost"), post("open")
	for _, pa := range []*paidaction.PaidAction{arrived, lost} {
		if _, err := w.Node.AddPartByForce(pa.Invoice.Hash, pa.Cost, 0); err != nil {
			t.Fatal(err)
		}
	}
	_, node := served(t, w.Node)
	env := settings(w.Pool, node)
	for says, wrong := range map[string][]string{
		"--yes":            {"--arrived"},
		"--arrived":        {"--yes"},
		"or --lost":        {"--yes", "--arrived", "--lost", "--reason", "It came back."},
		"--reason says":    {"--yes", "--lost"},
		"with --lost":      {"--yes", "--arrived", "--reason", "It is there."},
		"what is said of ": {"--lost", "--reason", "It came back."},
	} {
		code, out, said := command(t, env, append([]string{"actions", "on-chain", number(arrived.ID)}, wrong...)...)
		if code != exitUsage || out != "" || !strings.Contains(said, says) {
			t.Errorf("%s: exit code %d\n%s%s", says, code, out, said)
		}
	}
	for says, id := range map[string]int64{"there is no action 999": 999, "is OPEN at node sim": open.ID} {
		code, out, said := command(t, env, "actions", "on-chain", number(id), "--arrived", "--yes")
		if code != exitFailed || out != "" || !strings.Contains(said, says) {
			t.Errorf("%s: exit code %d\n%s%s", says, code, out, said)
		}
	}
	w.WantState(arrived.ID, paidaction.Pending)
	if code, out, said := command(t, env, "actions", "on-chain", number(arrived.ID), "--arrived", "--yes"); code != exitOK || !strings.Contains(out, `"PAID"`) {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
	if code, out, said := command(t, env, "actions", "on-chain", number(lost.ID), "--lost", "--reason", "It came back to you.", "--yes"); code != exitOK || !strings.Contains(out, `"FAILED"`) {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
	w.WantState(arrived.ID, paidaction.Paid)
	if pa := w.WantState(lost.ID, paidaction.Failed); pa.Failure.Message != "It came back to you." {
		t.Errorf("its payer is told %+v", pa.Failure)
	}
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), open.ID); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	if code, out, said := command(t, env, "reconcile"); code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
}
