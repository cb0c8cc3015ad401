package paidaction_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// followed has something follow the payments of jobs that are due at the same time: the first begins, the others wait for its end. It returns what
// became of each.
func followed(w *enginetest.World, jobs [][]int64) []error {
	w.Helper()
	config := w.Engine.Config
	config.Hooks.Wait = func(context.Context, func() bool) {} // patience never ends
	engine, err := paidaction.New(config)
	if err != nil {
		w.Fatal(err)
	}
	open := closed(w, "notification")
	errs := make([]error, len(jobs))
	var all sync.WaitGroup
	for i, ids := range jobs {
		all.Go(func() { errs[i] = engine.AfterPaid(w.Ctx, ids...) })
		if i == 0 {
			w.AwaitBlocked(1)
		}
	}
	for engine.Following() < len(jobs)-1 {
		runtime.Gosched()
	}
	open()
	all.Wait()
	return errs
}

// What follows zaps that are due at the same time is one transaction; what follows anything else, which may touch rows in an order of its own, is one for
// each. Done twice it is there once.
func TestWhatFollowsIsDoneTogether(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	item := w.Post(w.User("author", 1000*sat, 0), "popular")
	w.Drain()
	var jobs [][]int64
	for i := range 5 {
		user := w.User(fmt.Sprint("reader", i), 100*sat, 0)
		var ids []int64
		for range i + 1 {
			pa, err := w.Engine.Pay(w.Ctx, zapBy(user, item, 10, ""))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, pa.ID)
		}
		jobs = append(jobs, ids)
	}
	for i := range 2 {
		comment := w.Pay(w.User(fmt.Sprint("writer", i), 100*sat, 0), community.KindItemCreate, community.ItemCreateArgs{Parent: item, Body: "so it is"}, paidaction.FeeCredit)
		jobs = append(jobs, []int64{comment.ID})
	}
	jobs = append(jobs, jobs[2])
	for i, err := range followed(w, jobs) {
		if err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'ZAP'`); n != 15 {
		t.Errorf("the author was told of %d zaps, want 15", n)
	}
	if n := w.Count(`SELECT count(DISTINCT xmin::text) FROM notification WHERE kind = 'ZAP'`); n != 2 {
		t.Errorf("what follows the zaps of six jobs took %d transactions, want 2", n)
	}
	if n := w.Count(`SELECT count(DISTINCT xmin::text) FROM notification WHERE kind = 'REPLY'`); n != 2 {
		t.Errorf("what follows two comments took %d transactions, want 2", n)
	}
	if n := w.Count(`SELECT count(*) FROM notification a JOIN notification b ON a.xmin = b.xmin WHERE a.kind = 'REPLY' AND b.kind <> 'REPLY'`); n != 0 {
		t.Error("what follows a comment shares a transaction with what follows others")
	}
	w.Drain()
	if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'ZAP'`); n != 15 {
		t.Errorf("done again, the author was told of %d zaps, want 15", n)
	}
}

// It is done where nothing is done together, too.
func TestWhatFollowsIsDoneWithoutCompany(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{MaxGroup: 1})
	item := w.Post(w.User("author", 1000*sat, 0), "a post")
	w.Pay(w.User("reader", 100*sat, 0), community.KindZap, community.ZapArgs{Item: item, Sats: 10}, paidaction.FeeCredit)
	w.Drain()
	if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'ZAP'`); n != 1 {
		t.Errorf("the author was told of %d zaps, want 1", n)
	}
}

// Where what follows one payment cannot be done, only its own job is told, and everything that follows the others is done (spec 05.29).
func TestWhatFollowsOneTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 1_000_000*sat, 0)
	item, broken := w.Post(author, "a post"), w.Post(author, "another post")
	w.Drain()
	for _, sql := range []string{
		`CREATE FUNCTION breaks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$`,
		fmt.Sprintf(`CREATE TRIGGER breaks BEFORE INSERT ON notification FOR EACH ROW WHEN (NEW.item_id = %d) EXECUTE FUNCTION breaks()`, broken),
	} {
		if _, err := w.Pool.Exec(w.Ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	user := w.User("reader", 1000*sat, 0)
	zap := func(item int64) int64 {
		pa, err := w.Engine.Pay(w.Ctx, zapBy(user, item, 10, ""))
		if err != nil {
			t.Fatal(err)
		}
		return pa.ID
	}
	open := w.Pay(user, community.KindZap, community.ZapArgs{Item: item, Sats: 10}, paidaction.Optimistic)
	jobs := [][]int64{{zap(item)}, {zap(item), zap(item)}, {zap(item), zap(broken), zap(item)}, {zap(item), 999}, {zap(item), open.ID},
		{zap(broken), 999}, {999, zap(broken)}} // to be tried again, though one of them will never be there
	errs := followed(w, jobs)
	for i, err := range errs {
		switch i {
		case 2, 5, 6:
			if err == nil || !strings.Contains(err.Error(), "broken") || errors.Is(err, paidaction.ErrNoAction) {
				t.Errorf("job %d, with a broken one: %v", i, err)
			}
		case 3:
			if !errors.Is(err, paidaction.ErrNoAction) {
				t.Errorf("the job of one that does not exist: %v", err)
			}
		default:
			if err != nil {
				t.Errorf("job %d: %v", i, err)
			}
		}
	}
	if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'ZAP'`); n != 7 {
		t.Errorf("the author was told of %d zaps, want 7: all but the broken ones, and the one that is not paid", n)
	}
}
