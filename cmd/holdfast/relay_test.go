package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// An operator sees what is sent and through which node, and cannot send what was given back.
func TestRelay(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	env := settings(w.Pool)
	if code, out, _ := command(t, env, "relay", "list"); code != exitOK || out != "[]\n" {
		t.Errorf("nothing leaves: exit code %d, %s", code, out)
	}
	user := w.User("payer", 0, 100_000)
	carol := w.Network.AddReceiver("carol")
	withdraw := func(act simnode.Act) *paidaction.PaidAction {
		inv := carol.Issue(simnode.Ask{Amount: 20_000, Act: act})
		return w.Pay(user, community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	}
	paid, refused := withdraw(simnode.Pays), withdraw(simnode.Refuses)
	w.Run(w.Relay)
	w.Await(paid.ID, paidaction.Paid)
	w.Await(refused.ID, paidaction.Failed)

	code, out, said := command(t, env, "relay", "list", "--stage", "completed")
	var list []payment
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitOK || len(list) != 1 || list[0].Action != paid.ID ||
		list[0].AmountMsat != 20_000 || *list[0].FeeMsat != 1_000 || *list[0].Node != "sim" {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	if strings.Contains(out, "lnsim1") {
		t.Error("the receiver's invoice is shown")
	}
	code, out, said = command(t, env, "relay", "show", number(refused.ID))
	var whole wholePayment
	if err := json.Unmarshal([]byte(out), &whole); err != nil || code != exitOK || whole.Stage != "failed" || len(whole.Claims) != 1 ||
		*whole.Claims[0].Outcome != "FAILED" || *whole.Claims[0].Reason != "INCORRECT_PAYMENT_DETAILS" {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	if code, out, said = command(t, env, "relay", "requeue", "1002"); code != exitFailed || !strings.Contains(said, "1002 has no outgoing payment") {
		t.Errorf("requeued what is not there: exit code %d, %s%s", code, out, said)
	}
	if code, out, said = command(t, env, "relay", "requeue", number(refused.ID)); code != exitFailed || !strings.Contains(said, "start a new action") {
		t.Errorf("requeued what was given back: exit code %d, %s%s", code, out, said)
	}
	if code, _, said = command(t, env, "relay", "list", "--stage", "nowhere"); code != exitUsage || !strings.Contains(said, "pending_confirmation") {
		t.Errorf("exit code %d, %s", code, said)
	}
	if code, _, said = command(t, env, "relay", "show", "999"); code != exitFailed || !strings.Contains(said, "no outgoing payment") {
		t.Errorf("exit code %d, %s", code, said)
	}
}

func number(id int64) string { return strconv.FormatInt(id, 10) }
