package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

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

// What is put back is waited for from now on by PostgreSQL's clock: that of the machine where it is typed may be hours
// behind those of the processes that send.
func TestARequeueGoesByPostgreSQLsClock(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	inv := w.Network.AddReceiver("carol").Issue(simnode.Ask{Amount: 20_000, Act: simnode.Refuses})
	pa := w.Pay(w.User("payer", 0, 100_000), community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	claimed, err := w.Relay.Step(w.Ctx, w.Node.Name(), func(context.Context, int64) (paidaction.Progress, error) { return paidaction.Waiting, nil })
	if err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	w.AwaitStage(pa.ID, "failed")
	apart(t, w.Pool, "2 hours")
	if code, out, said := command(t, settings(w.Pool), "relay", "requeue", number(pa.ID)); code != exitOK {
		t.Fatalf("exit code %d, %s%s", code, out, said)
	}
	if n := w.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'incoming' AND requeued_at > pg_catalog.clock_timestamp() + interval '1 hour'`); n != 1 {
		t.Error("it goes by this machine's clock")
	}
}

// What was put back waits anew, and is not stuck; but it is if it had failed by a clock that was ahead, and would wait for as long.
func TestWhatWasPutBackIsNotStuck(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]int{0: exitOK, 24 * time.Hour: exitFound} {
		w := enginetest.New(t, paidaction.Settings{})
		w.Clock.Advance(time.Since(w.Clock.Now().Add(time.Hour)))
		inv := w.Network.AddReceiver("carol").Issue(simnode.Ask{Amount: 20_000, Act: simnode.Refuses, Expiry: 7 * 24 * time.Hour})
		pa := w.Pay(w.User("payer", 0, 100_000), community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
		w.Clock.Advance(time.Hour + ahead)
		if _, err := w.Relay.Step(w.Ctx, w.Node.Name(), func(context.Context, int64) (paidaction.Progress, error) { return paidaction.Waiting, nil }); err != nil {
			t.Fatal(err)
		}
		w.AwaitStage(pa.ID, "failed")
		env := settings(w.Pool)
		if code, out, said := command(t, env, "relay", "requeue", number(pa.ID)); code != exitOK {
			t.Fatalf("exit code %d, %s%s", code, out, said)
		}
		if code, out, said := command(t, env, "actions", "stuck"); code != want {
			t.Errorf("%s ahead: exit code %d, %s%s", ahead, code, out, said)
		}
	}
}

// forwardedLast is a world with a forward and a withdrawal that wait for a node. The forward began before the withdrawal,
// and was paid after it.
func forwardedLast(t *testing.T) (w *enginetest.World, author int64, forward, withdrawal *paidaction.PaidAction) {
	t.Helper()
	w = enginetest.New(t, paidaction.Settings{MaxForwards: 10})
	author = w.User("author", 100_000, 0)
	post := w.Post(author, "a post")
	w.Wallets.Add(author)
	forward = w.Pay(w.User("zapper", 0, 0), community.KindZap, community.ZapArgs{Item: post, Sats: 100}, paidaction.P2P)
	inv := w.Network.AddReceiver("carol").Issue(simnode.Ask{Amount: 20_000})
	withdrawal = w.Pay(w.User("payer", 0, 100_000), community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	if err := w.Node.PayHash(forward.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(forward.ID)
	return w, author, forward, withdrawal
}

// The number that an entry is shown with is the one that gives the page after it, of all payments and of one stage.
func TestPagesOfPayments(t *testing.T) {
	t.Parallel()
	w, _, forward, withdrawal := forwardedLast(t)
	for _, args := range [][]string{nil, {"--stage", "incoming"}} {
		before := "0"
		for page, want := range []int64{forward.ID, withdrawal.ID, 0} {
			code, out, said := command(t, settings(w.Pool), append([]string{"relay", "list", "--limit=1", "--before", before}, args...)...)
			var list []struct{ ID, Action int64 }
			if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitOK {
				t.Fatalf("%v, page %d: exit code %d, %v\n%s", args, page, code, err, said)
			}
			switch {
			case want == 0 && len(list) == 0:
			case len(list) == 1 && list[0].Action == want && list[0].ID != 0:
				before = number(list[0].ID)
			default:
				t.Fatalf("%v, page %d: %v, want action %d", args, page, list, want)
			}
		}
	}
}

// On a terminal too, a payment is shown with the number that gives the next page, and with its receiver, if it is a forward.
func TestATerminalSaysToWhomPaymentsGo(t *testing.T) {
	t.Parallel()
	w, author, forward, withdrawal := forwardedLast(t)
	for _, c := range []struct {
		do interface {
			Run(context.Context, *environment) error
		}
		rows []string
	}{
		{&relayList{newest: newest{Limit: 50}}, []string{
			"ID ACTION STAGE RECEIVER", fmt.Sprintf("2 %d incoming %d 70000", forward.ID, author), fmt.Sprintf("1 %d incoming - 20000", withdrawal.ID)}},
		{&relayShow{Action: forward.ID}, []string{"ACTION STAGE RECEIVER", fmt.Sprintf("%d incoming %d 70000", forward.ID, author)}},
	} {
		lines := strings.Split(onTerminal(t, w.Pool, c.do), "\n")
		for i, want := range c.rows {
			if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, want) {
				t.Errorf("line %d begins %q, want %q", i, got, want)
			}
		}
	}
}

func number(id int64) string { return strconv.FormatInt(id, 10) }

// The node that paid was made anew; its receiver shows the preimage.
func TestRelayPaid(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 100_000)
	carol := w.Network.AddReceiver("carol")
	inv := carol.Issue(simnode.Ask{Amount: 20_000, Act: simnode.Pays})
	pa := w.Pay(user, community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	if claimed, err := w.Relay.Step(w.Ctx, "sim", func(context.Context, int64) (paidaction.Progress, error) { return paidaction.Waiting, nil }); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	_, node := newNode(t)
	env, id, preimage := settings(w.Pool, node), number(pa.ID), hex.EncodeToString(inv.Preimage[:])
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{id}, exitUsage, "--preimage"},
		{[]string{id, "--preimage", "abc"}, exitUsage, "64 hexadecimal digits"},
		{[]string{id, "--preimage", strings.Repeat("0", 64)}, exitFailed, "its hash is"},
		{[]string{"999", "--preimage", preimage}, exitFailed, "has no outgoing payment"},
	} {
		if code, out, said := command(t, env, append([]string{"relay", "paid"}, c.args...)...); code != c.code || out != "" || !strings.Contains(said, c.says) {
			t.Errorf("%v: exit code %d\n%s%s", c.args, code, out, said)
		}
	}
	// To settings that lead to another node everything looks lost; what the right one has can still fail.
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO lightning_node (name, public_key, changed_at) VALUES ('sim', '02aa', now())
		ON CONFLICT (name) DO UPDATE SET public_key = '02aa'`); err != nil {
		t.Fatal(err)
	}
	for _, replaced := range [][]string{nil, {"--replaced", "other"}} {
		code, out, said := command(t, env, append([]string{"relay", "paid", id, "--preimage", preimage}, replaced...)...)
		if code != exitFailed || out != "" || !strings.Contains(said, "was known as 02aa") || !strings.Contains(said, "--replaced sim") {
			t.Errorf("at another node, %v: exit code %d\n%s%s", replaced, code, out, said)
		}
	}
	w.WantState(pa.ID, paidaction.Forwarding)
	if code, out, said := command(t, env, "relay", "paid", id, "--preimage", preimage, "--replaced", "sim"); code != exitOK || !strings.Contains(out, `"paid": `+id) {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
	w.WantState(pa.ID, paidaction.Forwarded)
}
