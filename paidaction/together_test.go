package paidaction_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// crowd has requests wait until all are there, and then lets them go on: those that can be paid together are. It returns what became of each.
func crowd(w *enginetest.World, requests []paidaction.Request) []error {
	w.Helper()
	open, answers := gathered(w, requests)
	open()
	return answers()
}

// gathered is a crowd that waits until it is opened.
func gathered(w *enginetest.World, requests []paidaction.Request) (open func(), answers func() []error) {
	w.Helper()
	// Whoever comes first waits for the totals, and takes up all places; the others gather behind them, however long it takes.
	open = closed(w, "zap_total")
	errs := make([]error, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		all.Go(func() { _, errs[i] = w.Engine.Pay(w.Ctx, r) })
		if i < paidaction.GroupsAtOnce {
			w.AwaitBlocked(i + 1)
		}
	}
	for w.Engine.Waiting() < len(requests)-paidaction.GroupsAtOnce {
		runtime.Gosched()
	}
	return open, func() []error {
		all.Wait()
		return errs
	}
}

// closed keeps everybody from writing to a table until open is called.
func closed(w *enginetest.World, table string) (open func()) {
	w.Helper()
	aside, err := pgx.ConnectConfig(w.Ctx, w.Pool.Config().ConnConfig) // those of the pool are needed
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = aside.Close(context.WithoutCancel(w.Ctx)) })
	gate, err := aside.Begin(w.Ctx)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := gate.Exec(w.Ctx, `LOCK TABLE `+table+` IN SHARE MODE`); err != nil {
		w.Fatal(err)
	}
	return func() {
		if err := gate.Rollback(w.Ctx); err != nil {
			w.Fatal(err)
		}
	}
}

func zapBy(user, item, sats int64, key string) paidaction.Request {
	return paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: item, Sats: sats}, Terms: paidaction.Terms{Method: paidaction.FeeCredit}, Key: key,
		Caller: enginetest.Caller(user)}
}

// What is in the way of one zap of a group is in the way of no other; and all that stand share one commit.
func TestOneOfManyIsRefusedAlone(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 1000*sat, 0)
	item := w.Post(author, "popular")
	first, second := w.User("first", 100*sat, 0), w.User("second", 100*sat, 0)
	poor, rich := w.User("poor", 5*sat, 0), w.User("rich", 100*sat, 0)
	requests := []paidaction.Request{
		zapBy(first, item, 10, "a"), zapBy(second, item, 10, "b"), zapBy(first, item, 10, "c"), // these hold the places
		zapBy(author, item, 10, "own"),
		zapBy(poor, item, 10, "too little"),
		zapBy(rich, item+100, 10, "nothing there"),
		zapBy(rich, item, 10, "twice"), zapBy(rich, item, 10, "twice"),
		zapBy(rich, item, 60, "much"), zapBy(rich, item, 60, "too much"),
		zapBy(second, item, 20, ""), zapBy(second, item, 20, ""),
	}
	errs := crowd(w, requests)
	refused := 0
	for i, r := range requests {
		switch r.Key {
		case "own":
			w.WantRefusal(errs[i], paidaction.CodeForbidden)
		case "too little":
			w.WantRefusal(errs[i], paidaction.CodeInsufficientFunds)
		case "nothing there":
			w.WantRefusal(errs[i], paidaction.CodeNotFound)
		case "much", "too much":
			if errs[i] != nil {
				refused++
				w.WantRefusal(errs[i], paidaction.CodeInsufficientFunds)
			}
		default:
			if errs[i] != nil {
				t.Errorf("%d: %v", i, errs[i])
			}
		}
	}
	if refused != 1 {
		t.Errorf("of two zaps that the balance covers one of, %d were refused", refused)
	}
	if n := w.Count(`SELECT count(*) FROM paid_action WHERE kind = 'ZAP'`); n != 7 {
		t.Errorf("%d zaps, want 7", n)
	}
	if n := w.Count(`SELECT max(n) FROM (SELECT count(*) AS n FROM paid_action WHERE kind = 'ZAP' GROUP BY xmin::text) AS one`); n < 3 {
		t.Errorf("at most %d zaps share a transaction", n)
	}
	w.Drain()
	w.WantBalance(ledger.UserCredits(first), 80*sat)
	w.WantBalance(ledger.UserCredits(second), 50*sat)
	w.WantBalance(ledger.UserCredits(poor), 5*sat)
	w.WantBalance(ledger.UserCredits(rich), 30*sat)
	const votes = 1_301_030 + 1_698_970 + 1_845_098 // log10 of what each zapped, 20, 50 and 70 sats
	if n := w.Count(`SELECT count(*) FROM (SELECT sum(msat) AS msat, sum(upvotes) AS upvotes, sum(vote_micros) AS micros FROM item_delta WHERE item_id = $1) AS d
		WHERE msat = 140000 AND upvotes = 3 AND micros = $2`, item, votes); n != 1 {
		t.Error("the item is not what its zaps have made of it")
	}
	if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'ZAP'`); n != 7 {
		t.Errorf("the author was told of %d zaps, want 7", n)
	}
	w.WantConserved()
}

// Nobody looks at balances and keys before they are used, unless one was in the way a moment ago: then a group looks first, and begins nothing that it must undo.
func TestBalancesAndKeysAreLookedAtOnceOneWasInTheWay(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	item := w.Post(w.User("author", 1000*sat, 0), "post")
	poor, rich := w.User("poor", 5*sat, 0), w.User("rich", 100*sat, 0)
	pay := func(user int64, key string) (*paidaction.PaidAction, error) {
		return w.Engine.Pay(w.Ctx, zapBy(user, item, 10, key))
	}
	first, err := pay(rich, "a key")
	if err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(2 * time.Second) // what rich had was not folded in
	tooMuch := func() {
		_, err := pay(poor, "")
		w.WantRefusal(err, paidaction.CodeInsufficientFunds)
	}
	again := func() {
		if pa, err := pay(rich, "a key"); err != nil || pa.ID != first.ID {
			t.Errorf("%v, %v", pa, err)
		}
	}
	for name, ask := range map[string]func(){"balances": tooMuch, "keys": again} {
		// Each try takes a number.
		undone := func() bool {
			before := w.Count(`SELECT last_value FROM paid_action_id_seq`)
			ask()
			return w.Count(`SELECT last_value FROM paid_action_id_seq`) > before+1
		}
		if !undone() {
			t.Errorf("%s were looked at before there was a reason", name)
		}
		if undone() {
			t.Errorf("%s: a payment was begun although one had just been undone", name)
		}
		w.Clock.Advance(2 * time.Second)
		if !undone() {
			t.Errorf("%s are looked at for ever", name)
		}
		w.Clock.Advance(2 * time.Second)
	}
	// What was received since the last fold can be spent whether anybody looks first or not.
	for _, wait := range []time.Duration{0, 2 * time.Second} {
		w.Clock.Advance(wait)
		if err := ledger.Post(w.Ctx, db.New(w.Pool), nil, w.Clock.Now(), []ledger.Transfer{
			{From: ledger.UserCredits(rich), To: ledger.UserCredits(poor), Msat: 10 * sat, Reason: "gift"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Engine.Pay(w.Ctx, zapBy(poor, item, 12, "")); err != nil {
			t.Errorf("after %v: %v", wait, err)
		}
	}
	w.WantBalance(ledger.UserCredits(poor), 1*sat)
	w.WantConserved()
}

// A key that another transaction uses between a group's look and its own use is in the way of the one who has it, and the others still share a commit.
func TestAKeyThatIsUsedAfterTheLook(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	item := w.Post(w.User("author", 1000*sat, 0), "post")
	var payers []int64
	for i := range 7 {
		payers = append(payers, w.User(fmt.Sprint("payer", i), 100*sat, 0))
	}
	_, err := w.Engine.Pay(w.Ctx, zapBy(w.User("poor", 5*sat, 0), item, 10, ""))
	w.WantRefusal(err, paidaction.CodeInsufficientFunds)                   // groups look now
	elsewhere, err := pgx.ConnectConfig(w.Ctx, w.Pool.Config().ConnConfig) // those of the pool are needed
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = elsewhere.Close(context.WithoutCancel(w.Ctx)) }()
	other, err := elsewhere.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(w.Ctx, `INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, idempotency_key, args_hash)
		VALUES ('ZAP', 'BALANCE', 'REWARD_SATS', 'PAID', $1, 1, now(), now(), '{}', 'raced', sha256(''))`, payers[3]); err != nil {
		t.Fatal(err)
	}
	open, answers := gathered(w, []paidaction.Request{
		zapBy(payers[0], item, 10, "a"), zapBy(payers[1], item, 10, "b"), zapBy(payers[2], item, 10, "c"), // these hold the places
		zapBy(payers[3], item, 10, "raced"), zapBy(payers[4], item, 10, "d"), zapBy(payers[5], item, 10, "e"), zapBy(payers[6], item, 10, "f")})
	open()
	for w.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'`) == 0 {
	}
	if err := other.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	for i, err := range answers() {
		if i == 3 {
			w.WantRefusal(err, paidaction.CodeIdempotencyConflict)
		} else if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := w.Count(`SELECT max(n) FROM (SELECT count(*) AS n FROM zap GROUP BY xmin::text) AS one`); n < 3 {
		t.Errorf("at most %d zaps share a transaction", n)
	}
}

// A fault of one, which nobody foresees, undoes the whole transaction; each is then done by itself, and only that one fails.
func TestFaultOfOneTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 1_000_000*sat, 0)
	var items []int64
	for i := range 6 {
		items = append(items, w.Post(author, fmt.Sprint("post ", i)))
	}
	broken := items[5]
	for _, sql := range []string{
		`CREATE FUNCTION breaks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$`,
		fmt.Sprintf(`CREATE TRIGGER breaks BEFORE INSERT ON vote_event FOR EACH ROW WHEN (NEW.item_id = %d) EXECUTE FUNCTION breaks()`, broken),
	} {
		if _, err := w.Pool.Exec(w.Ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	var requests []paidaction.Request
	var users []int64
	for i, item := range items {
		users = append(users, w.User(fmt.Sprint("reader", i), 100*sat, 0))
		requests = append(requests, zapBy(users[i], item, 10, fmt.Sprint("key ", i)))
	}
	for i, err := range crowd(w, requests) {
		left := int64(90 * sat)
		if items[i] == broken {
			left = 100 * sat
			if err == nil || !strings.Contains(err.Error(), "broken") {
				t.Errorf("the broken one: %v", err)
			}
		} else if err != nil {
			t.Errorf("%d: %v", i, err)
		}
		w.WantBalance(ledger.UserCredits(users[i]), left)
	}
	w.WantConserved()
}

// Who no longer waits is not charged, and those who wait with them are not held up.
func TestWhoGoesAwayWhileWaiting(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 1000*sat, 0)
	item := w.Post(author, "popular")
	gone, stays := w.User("gone", 100*sat, 0), w.User("stays", 100*sat, 0)
	open := closed(w, "zap_total")
	var others sync.WaitGroup
	pay := func(user int64) {
		if _, err := w.Engine.Pay(w.Ctx, zapBy(user, item, 10, "")); err != nil {
			t.Error(err)
		}
	}
	for i := range paidaction.GroupsAtOnce { // these hold the places
		user := w.User(fmt.Sprint("payer", i), 100*sat, 0)
		others.Go(func() { pay(user) })
		w.AwaitBlocked(i + 1)
	}
	ctx, leave := context.WithCancel(w.Ctx)
	left := make(chan error)
	go func() {
		_, err := w.Engine.Pay(ctx, zapBy(gone, item, 10, ""))
		left <- err
	}()
	for w.Engine.Waiting() != 1 {
		runtime.Gosched()
	}
	leave()
	w.WantRefusal(<-left, paidaction.CodeTryAgain)
	others.Go(func() { pay(stays) })
	for w.Engine.Waiting() != 1 {
		runtime.Gosched()
	}
	open()
	others.Wait()
	w.WantBalance(ledger.UserCredits(gone), 100*sat)
	w.WantBalance(ledger.UserCredits(stays), 90*sat)
	w.WantConserved()
}

// togetherAlone says that it is paid together, and does by itself what follows its payment, which nobody would call.
type togetherAlone struct{ community.Zap }

func (togetherAlone) AfterPaid(context.Context, *paidaction.Tx, community.ZapArgs, community.ZapResult) error {
	return nil
}

// inName is a donation that says of itself what it is not.
type inName struct {
	community.Donate
	spec paidaction.Spec
}

func (n inName) Spec() paidaction.Spec { return n.spec }

func TestNoActionSaysOfItselfWhatItIsNot(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	for name, action := range map[string]paidaction.Definition{
		"together, with what follows one":    paidaction.Define(togetherAlone{}),
		"together in name alone":             paidaction.Define(inName{spec: paidaction.Spec{Kind: "DONATE", Together: true}}),
		"paid to people in name alone":       paidaction.Define(inName{spec: paidaction.Spec{Kind: "DONATE", Methods: []paidaction.Method{paidaction.P2P}}}),
		"paying out, with nobody to be paid": paidaction.Define(inName{spec: paidaction.Spec{Kind: "DONATE", Methods: []paidaction.Method{paidaction.Outgoing}}}),
	} {
		config := w.Engine.Config
		config.Actions = []paidaction.Definition{action}
		if _, err := paidaction.New(config); err == nil {
			t.Errorf("%s: an engine was made of it", name)
		}
	}
}
