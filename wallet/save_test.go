package wallet_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
)

func TestSaveInPlaceOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, other := w.user(), w.user()
	first, second := newLNbits(t, w.mint), newLNURL(t, w.mint)
	a, b := w.save(user, first.settings()), w.save(user, first.settings())
	if _, err := w.Enable(w.ctx, user, a.ID, false, nil); err != nil {
		t.Fatal(err)
	}
	saved, err := w.Save(w.ctx, user, a.ID, "new", second.address(), nil)
	if err != nil || saved.ID != a.ID || saved.Kind != wallet.KindLightningAddress || saved.Priority != 1 || saved.Enabled || saved.Label != "new" {
		t.Errorf("saved %+v, error %v", saved, err)
	}
	if _, err := w.Enable(w.ctx, user, a.ID, true, nil); err != nil {
		t.Fatal(err)
	}
	before := second.count()
	w.want(user, 0, a.ID)
	if second.count() != before+1 {
		t.Error("the old settings were used")
	}
	// One that fails leaves what was there.
	second.breaks(down)
	if _, err := w.Save(w.ctx, user, b.ID, "broken", second.address(), nil); err == nil {
		t.Error("a broken wallet was saved")
	}
	list, err := w.List(w.ctx, user)
	if err != nil || len(list) != 2 || list[1] != b {
		t.Errorf("there are %+v, error %v", list, err)
	}
	// What is another's is not found, and nobody is called.
	asked := first.count()
	for _, err := range []error{
		errorOf(w.Save(w.ctx, other, a.ID, "", first.settings(), nil)), errorOf(w.Enable(w.ctx, other, a.ID, false, nil)), w.Remove(w.ctx, other, a.ID, nil),
		errorOf(w.Save(w.ctx, user, 1<<40, "", first.settings(), nil)), errorOf(w.Enable(w.ctx, user, 1<<40, true, nil)), w.Remove(w.ctx, user, 1<<40, nil),
	} {
		if codeOf(err) != paidaction.CodeNotFound {
			t.Errorf("another's wallet: %v", err)
		}
	}
	if first.count() != asked {
		t.Error("a wallet was called for nothing")
	}
	if list, err := w.List(w.ctx, other); err != nil || len(list) != 0 {
		t.Errorf("another sees %+v, error %v", list, err)
	}
	for _, ids := range [][]int64{nil, {a.ID}, {a.ID, a.ID}, {a.ID, b.ID, b.ID}, {a.ID, b.ID, 1 << 40}} {
		if _, err := w.Reorder(w.ctx, user, ids, nil); codeOf(err) != paidaction.CodeInvalidInput {
			t.Errorf("reordered to %v: %v", ids, err)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// However many come at once, nobody gets more wallets than they may, and one is tested at a time.
func TestNumberOfWalletsIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *wallet.Config) { c.Limits.Wallets = 3 })
	// Another process, with tests of its own.
	c := w.Config
	elsewhere, err := wallet.New(c)
	if err != nil {
		t.Fatal(err)
	}
	user := w.user()
	s := newLNbits(t, w.mint)
	var saving sync.WaitGroup
	for range 8 {
		for _, process := range []*wallet.Wallets{w.Wallets, elsewhere} {
			saving.Go(func() {
				_, err := process.Save(w.ctx, user, 0, "", s.settings(), nil)
				if code := codeOf(err); err != nil && code != wallet.CodeTooMany && code != paidaction.CodeTryAgain {
					t.Error(err)
				}
			})
		}
	}
	saving.Wait()
	list, err := w.List(w.ctx, user)
	if err != nil || len(list) > 3 || len(list) < 1 {
		t.Fatalf("%d wallets, error %v", len(list), err)
	}
	for len(list) < 3 {
		w.save(user, s.settings())
		if list, err = w.List(w.ctx, user); err != nil {
			t.Fatal(err)
		}
	}
	for i, saved := range list {
		if saved.Priority != i+1 {
			t.Errorf("the wallets have the priorities %+v", list)
		}
	}
	asked := s.count()
	if _, err := w.Save(w.ctx, user, 0, "", s.settings(), nil); codeOf(err) != wallet.CodeTooMany || s.count() != asked {
		t.Errorf("a fourth wallet: %v, the server was asked %d times more", err, s.count()-asked)
	}
	if err := w.Remove(w.ctx, user, list[0].ID, nil); err != nil {
		t.Fatal(err)
	}
	if saved := w.save(user, s.settings()); saved.Priority != 4 {
		t.Errorf("the newest has priority %d, and is not last", saved.Priority)
	}
}

// Two processes test at once, and both find room. Who stores second waits for the first, and looks again.
func TestNumberOfWalletsIsBoundedAcrossProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *wallet.Config) { c.Limits.Wallets = 1 })
	elsewhere, err := wallet.New(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	user, s := w.user(), newLNbits(t, w.mint)
	stored, commit, first, second := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := w.Save(w.ctx, user, 0, "", s.settings(), func(context.Context, *db.Queries) error {
			close(stored)
			<-commit
			return nil
		})
		first <- err
	}()
	select {
	case <-stored:
	case err := <-first:
		t.Fatal(err)
	}
	go func() { second <- errorOf(elsewhere.Save(w.ctx, user, 0, "", s.settings(), nil)) }()
	for waits := false; !waits && len(second) == 0; {
		if err := w.pool.QueryRow(w.ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits); err != nil {
			t.Error(err)
			break
		}
	}
	close(commit)
	if err := <-first; err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := <-second; codeOf(err) != wallet.CodeTooMany {
		t.Errorf("the second: %v", err)
	}
	if list, err := w.List(w.ctx, user); err != nil || len(list) != 1 {
		t.Errorf("%d wallets, error %v", len(list), err)
	}
}

func TestOneTestAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.user()
	s := newLNbits(t, w.mint)
	begun := make(chan struct{})
	s.breaks(func(w http.ResponseWriter, r *http.Request) { close(begun); hang(w, r) })
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- errorOf(w.Save(ctx, user, 0, "", s.settings(), nil)) }()
	<-begun
	if _, err := w.Save(w.ctx, user, 0, "", s.settings(), nil); codeOf(err) != paidaction.CodeTryAgain {
		t.Errorf("two tests at once: %v", err)
	}
	s.breaks(nil)
	w.save(w.user(), s.settings()) // somebody else's
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	w.save(user, s.settings())
}

// Where no node of ours can read the invoice, nothing is saved.
func TestWithoutANodeNothingIsSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *wallet.Config) {
		c.Decode = func(context.Context, string) (paidaction.Bolt11, error) {
			return paidaction.Bolt11{}, paidaction.Errorf(paidaction.CodeLightningUnavailable, "No node can look at it now.")
		}
	})
	user := w.user()
	if _, err := w.Save(w.ctx, user, 0, "", newLNbits(t, w.mint).settings(), nil); codeOf(err) != paidaction.CodeLightningUnavailable {
		t.Errorf("without a node: %v", err)
	}
	if list, err := w.List(w.ctx, user); err != nil || len(list) != 0 {
		t.Errorf("saved %+v, error %v", list, err)
	}
}

// Settings longer than any wallet has are not stored, and nobody is called for them: they would be read at each payment.
func TestLongSettingsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, s := w.user(), newLND(t, w.mint)
	long := s.settings()
	long.Certificate = strings.Repeat(long.Certificate+"\n", 33<<10/len(long.Certificate))
	if _, err := w.Save(w.ctx, user, 0, "", long, nil); codeOf(err) != paidaction.CodeInvalidInput {
		t.Errorf("33 KiB of settings: %v", err)
	}
	if s.count() != 0 {
		t.Error("the wallet was called")
	}
	w.save(user, s.settings())
}
