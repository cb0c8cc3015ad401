package community_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// trySend uploads a few bytes as somebody; 0 is the anonymous, from one address.
func trySend(w *enginetest.World, user int64, s community.Settings, bytes int) (row db.Upload, err error) {
	u := community.NewUpload{Owner: &user, ContentType: "image/png", Data: make([]byte, bytes)}
	if user == 0 {
		u.Owner, u.Client = nil, w.Engine.ClientHash("192.0.2.1")
	}
	err = pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
		row, err = community.StoreUpload(w.Ctx, db.New(tx), s, u, w.Clock.Now(), rand.Reader)
		return err
	})
	return row, err
}

func send(w *enginetest.World, user int64) db.Upload {
	w.Helper()
	row, err := trySend(w, user, community.DefaultSettings(), 8)
	if err != nil {
		w.Fatal(err)
	}
	return row
}

// public says whether everybody may have the file.
func public(w *enginetest.World, u db.Upload) bool {
	w.Helper()
	row, err := db.New(w.Pool).UploadByToken(w.Ctx, u.Token)
	if err != nil {
		w.Fatal(err)
	}
	return row.Public
}

// carrier is the item that carries the file, 0 where none does.
func carrier(w *enginetest.World, u db.Upload) int64 {
	w.Helper()
	return w.Count(`SELECT coalesce(item_id, 0) FROM upload WHERE id = $1`, u.ID)
}

// spec 02 §2.4: by the bytes of the last 24 hours, this file's own among them.
func TestFeeOfUploads(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("uploader", 0, 0)
	s := community.DefaultSettings()
	s.MaxUnpaidUploadBytes = 1 << 40
	for _, c := range []struct{ before, fee int64 }{
		{0, 0}, {250_000_000 - 8, 0}, {250_000_000 - 7, 10 * sat}, {500_000_000 - 8, 10 * sat}, {500_000_000 - 7, 100 * sat},
		{1_000_000_000 - 8, 100 * sat}, {1_000_000_000 - 7, 1000 * sat}, {1 << 39, 1000 * sat},
	} {
		if _, err := w.Pool.Exec(w.Ctx, `DELETE FROM upload`); err != nil {
			t.Fatal(err)
		}
		if c.before > 0 {
			if _, err := trySend(w, user, s, 1); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Pool.Exec(w.Ctx, `UPDATE upload SET bytes = $1`, c.before); err != nil {
				t.Fatal(err)
			}
		}
		if u, err := trySend(w, user, s, 8); err != nil || u.FeeMsat != c.fee {
			t.Errorf("8 bytes after %d cost %d msat (%v), want %d", c.before, u.FeeMsat, err, c.fee)
		}
	}
	w.Clock.Advance(24*time.Hour - time.Second)
	if u, err := trySend(w, user, s, 8); err != nil || u.FeeMsat != 1000*sat {
		t.Errorf("a second before the day is over: %d msat, %v", u.FeeMsat, err)
	}
	w.Clock.Advance(time.Second)
	if u, err := trySend(w, user, s, 8); err != nil || u.FeeMsat != 0 {
		t.Errorf("a day later: %d msat, %v", u.FeeMsat, err)
	}
	if u := send(w, 0); u.FeeMsat != 100*sat {
		t.Errorf("anonymous: %d msat", u.FeeMsat)
	}
}

// Uploads at the same moment see each other: neither the fee nor the bounds can be evaded.
func TestConcurrentUploadsCannotEvade(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	s := community.DefaultSettings()
	s.UploadSteps, s.MaxUnpaidUploads = [...]int64{8, 16, 24}, 4
	for _, user := range []int64{w.User("uploader", 0, 0), 0} {
		var mu sync.Mutex
		var fees, refused int64
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				u, err := trySend(w, user, s, 8)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					w.WantRefusal(err, community.CodeTooManyUploads)
					refused++
				}
				fees += u.FeeMsat
			})
		}
		all.Wait()
		want := int64(0+10+100+1000) * sat
		if user == 0 {
			want = 400 * sat
		}
		if fees != want || refused != 2 {
			t.Errorf("user %d: four uploads at once cost %d msat, want %d; %d were refused", user, fees, want, refused)
		}
	}
	if n := w.Count(`SELECT count(*) FROM upload_data`); n != 8 {
		t.Errorf("the bytes of %d files are stored, want 8", n)
	}
}

func TestUnpaidUploadsAreBounded(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user, other := w.User("uploader", 1000*sat, 0), w.User("other", 0, 0)
	s := community.DefaultSettings()
	s.MaxUnpaidUploadBytes = 20
	first, err := trySend(w, user, s, 8)
	if err != nil {
		t.Fatal(err)
	}
	_, err = trySend(w, user, s, 13)
	w.WantRefusal(err, community.CodeTooManyUploads)
	if _, err := trySend(w, other, s, 20); err != nil {
		t.Errorf("the bound of one is another's: %v", err)
	}
	create(w, user, community.ItemCreateArgs{Title: "with a picture", Uploads: []int64{first.ID}})
	second, err := trySend(w, user, s, 20)
	if err != nil {
		t.Fatalf("what is paid still counts: %v", err)
	}
	w.Pay(user, community.KindItemCreate, community.ItemCreateArgs{Title: "never paid", Uploads: []int64{second.ID}}, paidaction.Optimistic)
	_, err = trySend(w, user, s, 1)
	w.WantRefusal(err, community.CodeTooManyUploads)

	theirs, err := trySend(w, 0, s, 20)
	if err != nil {
		t.Fatal(err)
	}
	pa := create(w, 0, community.ItemCreateArgs{Title: "by somebody", Uploads: []int64{theirs.ID}})
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Held)
	_, err = trySend(w, 0, s, 1)
	w.WantRefusal(err, community.CodeTooManyUploads) // what is held can still go back
	w.Drain()
	if _, err := trySend(w, 0, s, 20); err != nil {
		t.Errorf("what the anonymous have paid still counts: %v", err)
	}
}

// One change of a post that is paid shows nothing of another that is not.
func TestAChangeShowsItsOwnUploadsAlone(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 100*sat, 0)
	post := w.Item(create(w, author, community.ItemCreateArgs{Title: "with pictures"}))
	unpaid, paid := send(w, author), send(w, author)
	if _, err := w.Pool.Exec(w.Ctx, `UPDATE upload SET fee_msat = 10000`); err != nil {
		t.Fatal(err)
	}
	held := w.Pay(author, community.KindItemUpdate, community.ItemUpdateArgs{Item: post, Uploads: []int64{unpaid.ID}}, paidaction.Pessimistic)
	payInvoice(w, held)
	w.WantState(held.ID, paidaction.Held)
	w.Pay(author, community.KindItemUpdate, community.ItemUpdateArgs{Item: post, Uploads: []int64{paid.ID}}, paidaction.FeeCredit)
	if !public(w, paid) || public(w, unpaid) {
		t.Errorf("the paid one is public: %t, the held one: %t", public(w, paid), public(w, unpaid))
	}
	w.Node.Mine(200) // the node gives back what was held for too long
	w.Drain()
	w.WantState(held.ID, paidaction.Failed)
	if public(w, unpaid) || carrier(w, unpaid) != 0 {
		t.Errorf("what went back is public: %t, carried by %d", public(w, unpaid), carrier(w, unpaid))
	}
	w.WantConserved()
}

// Until the item is paid its owner alone sees what it carries.
func TestUploadsAreShownWithTheirItem(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	rich, poor := w.User("rich", 1000*sat, 0), w.User("poor", 0, 0)
	u := send(w, rich)
	if public(w, u) {
		t.Error("seen without an item")
	}
	id := w.Item(create(w, rich, community.ItemCreateArgs{Title: "paid", Uploads: []int64{u.ID}}))
	if !public(w, u) || carrier(w, u) != id {
		t.Errorf("paid: public %t, carried by %d of %d", public(w, u), carrier(w, u), id)
	}
	if _, err := w.Pool.Exec(w.Ctx, `UPDATE item SET deleted_at = created_at WHERE id = $1`, id); err != nil {
		t.Fatal(err)
	}
	if public(w, u) {
		t.Error("seen when the item is deleted")
	}

	u = send(w, poor)
	pa := create(w, poor, community.ItemCreateArgs{Title: "pending", Uploads: []int64{u.ID}})
	if public(w, u) || carrier(w, u) != w.Item(pa) {
		t.Errorf("pending: public %t, carried by %d", public(w, u), carrier(w, u))
	}
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(poor), pa.ID); err != nil {
		t.Fatal(err)
	}
	if public(w, u) || carrier(w, u) != 0 {
		t.Errorf("failed: public %t, carried by %d", public(w, u), carrier(w, u))
	}
	again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(poor), pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if public(w, u) || carrier(w, u) != w.Item(again) {
		t.Errorf("retried: public %t, carried by %d", public(w, u), carrier(w, u))
	}
	if err := w.Node.PayBolt11(again.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(again.ID)
	if !public(w, u) {
		t.Error("paid at the second attempt, and not seen")
	}
	w.WantConserved()
}

// Whoever uploads anonymously claims by the id, pays 100 sats a file, and is shown when the payment is taken.
func TestAnonymousUploads(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	u := send(w, 0)
	pa := create(w, 0, community.ItemCreateArgs{Title: "anonymous", Uploads: []int64{u.ID}})
	if pa.Cost != 110*sat {
		t.Errorf("costs %d, want 10 and 100 sats", pa.Cost)
	}
	if carrier(w, u) != 0 || public(w, u) {
		t.Error("claimed before it is paid")
	}
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(pa.ID)
	if w.WantState(pa.ID, paidaction.Held); carrier(w, u) == 0 || public(w, u) {
		t.Error("held: claimed, and not public")
	}
	w.Drain()
	if w.WantState(pa.ID, paidaction.Paid); !public(w, u) {
		t.Error("paid, and not public")
	}
	w.WantBalance(ledger.RewardSats, 110*sat)
}

// One upload, one item, one owner. A refusal changes nothing.
func TestUploadsThatCannotBeClaimed(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user, other := w.User("user", 10_000*sat, 0), w.User("other", 10_000*sat, 0)
	mine, taken, theirs, anonymous := send(w, user), send(w, user), send(w, other), send(w, 0)
	item := w.Item(create(w, user, community.ItemCreateArgs{Title: "taken", Uploads: []int64{taken.ID}}))
	var eleven []int64
	for range 11 {
		eleven = append(eleven, send(w, user).ID)
	}
	w.Clock.Advance(time.Hour)
	before := w.Count(`SELECT count(*) FROM item`) + w.Count(`SELECT count(*) FROM paid_action`)
	for _, c := range []struct {
		name    string
		as      int64
		uploads []int64
		code    paidaction.Code
	}{
		{"another's", user, []int64{mine.ID, theirs.ID}, paidaction.CodeNotFound},
		{"an anonymous one's, signed in", user, []int64{anonymous.ID}, paidaction.CodeNotFound},
		{"a user's, without signing in", 0, []int64{mine.ID}, paidaction.CodeNotFound},
		{"one that is not there", user, []int64{12345}, paidaction.CodeNotFound},
		{"one that an item carries", user, []int64{mine.ID, taken.ID}, paidaction.CodeDuplicate},
		{"one twice", user, []int64{mine.ID, mine.ID}, paidaction.CodeInvalidInput},
		{"too many", user, eleven, paidaction.CodeInvalidInput},
	} {
		for kind, args := range map[string]any{
			community.KindItemCreate: community.ItemCreateArgs{Title: c.name, Uploads: c.uploads},
			community.KindItemUpdate: community.ItemUpdateArgs{Item: item, Uploads: c.uploads},
		} {
			if kind == community.KindItemUpdate && c.as == 0 {
				continue // not theirs anyway
			}
			_, err := w.Try(c.as, kind, args, "", "")
			w.WantRefusal(err, c.code)
		}
	}
	if carrier(w, mine) != 0 || carrier(w, taken) != item {
		t.Error("a refusal has changed who carries what")
	}
	if now := w.Count(`SELECT count(*) FROM item`) + w.Count(`SELECT count(*) FROM paid_action`); now != before {
		t.Errorf("%d rows more after refusals", now-before)
	}
	w.WantBalance(ledger.UserCredits(user), 9999*sat)
}

// Of two items that want one file, one gets it.
func TestOneUploadForTwoItemsAtOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("user", 10_000*sat, 0)
	one, two := send(w, user), send(w, user)
	root := w.Post(user, "root")
	other := w.Post(user, "other")
	errs := make(chan error)
	for i, uploads := range [][]int64{{one.ID, two.ID}, {two.ID, one.ID}, {one.ID}} {
		go func() {
			item := []int64{root, other, other}[i]
			_, err := w.Try(user, community.KindItemUpdate, community.ItemUpdateArgs{Item: item, Uploads: uploads}, "", "")
			errs <- err
		}()
	}
	done := 0
	for range 3 {
		if err := <-errs; err == nil {
			done++
		} else {
			w.WantRefusal(err, paidaction.CodeDuplicate)
		}
	}
	if done != 1 {
		t.Errorf("%d claims of the same file went through", done)
	}
}

// A pessimistic action claims when it is paid: by then another item may have the file, and the money goes back.
func TestUploadTakenMeanwhile(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	u := send(w, 0)
	late := create(w, 0, community.ItemCreateArgs{Title: "late", Uploads: []int64{u.ID}})
	early := create(w, 0, community.ItemCreateArgs{Title: "early", Uploads: []int64{u.ID}})
	for _, pa := range []*paidaction.PaidAction{early, late} {
		if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
		w.Advance(pa.ID)
		w.Drain()
	}
	w.WantState(early.ID, paidaction.Paid)
	if pa := w.WantState(late.ID, paidaction.Failed); pa.Failure.Code != paidaction.CodeDuplicate {
		t.Errorf("failed for %v", pa.Failure)
	}
	if !public(w, u) {
		t.Error("the failed action has taken the file from the one that paid")
	}
	w.WantConserved()
}

// What nobody has claimed for a day is deleted with its bytes; what an item carries stays, and what one gave back has a day again.
func TestUnclaimedUploadsAreSwept(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("user", 0, 0)
	sweep := func(page int32) int {
		t.Helper()
		n := 0
		err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) (err error) {
			n, err = community.SweepUploads(w.Ctx, db.New(tx), community.DefaultSettings(), w.Clock.Now(), page)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 3 {
		send(w, user)
	}
	carried, freed := send(w, user), send(w, user)
	create(w, user, community.ItemCreateArgs{Title: "carries", Uploads: []int64{carried.ID}})
	failing := create(w, user, community.ItemCreateArgs{Title: "gives back", Uploads: []int64{freed.ID}})
	w.Clock.Advance(23*time.Hour + 59*time.Minute)
	send(w, user)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), failing.ID); err != nil {
		t.Fatal(err)
	}
	if n := sweep(10); n != 0 {
		t.Errorf("%d were deleted before their day was over", n)
	}
	w.Clock.Advance(time.Minute)
	if a, b, c := sweep(2), sweep(2), sweep(2); a != 2 || b != 1 || c != 0 {
		t.Errorf("deleted %d, %d and %d of three, two at a time", a, b, c)
	}
	if n := w.Count(`SELECT count(*) FROM upload`); n != 3 || n != w.Count(`SELECT count(*) FROM upload_data`) {
		t.Errorf("%d are left, want 3 with their bytes", n)
	}
	if _, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), failing.ID, "", paidaction.Terms{}, nil); err != nil {
		t.Errorf("what was given back is gone: %v", err)
	}
}

// The sweep waits for nobody, and does not take what is being claimed.
func TestSweepPassesOverWhatIsBeingClaimed(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("user", 0, 0)
	u := send(w, user)
	w.Clock.Advance(48 * time.Hour)
	err := pgx.BeginFunc(w.Ctx, w.Pool, func(claim pgx.Tx) error {
		if _, err := db.New(claim).LockUploads(w.Ctx, db.LockUploadsParams{Ids: []int64{u.ID}, OwnerID: &user}); err != nil {
			return err
		}
		return pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
			n, err := community.SweepUploads(w.Ctx, db.New(tx), community.DefaultSettings(), w.Clock.Now(), 10)
			if n != 0 {
				t.Errorf("%d were deleted", n)
			}
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The more is uploaded within a day, the dearer the next file, whatever the settings.
func TestUploadFeesRise(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	users := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := community.DefaultSettings()
		step := rapid.Int64Range(0, 50)
		s.UploadSteps[0] = 1 + step.Draw(rt, "first")
		s.UploadSteps[1] = s.UploadSteps[0] + step.Draw(rt, "second")
		s.UploadSteps[2] = s.UploadSteps[1] + step.Draw(rt, "third")
		if err := s.Check(); err != nil {
			rt.Fatal(err)
		}
		users++
		user := w.User(fmt.Sprint("uploader", users), 0, 0)
		var last int64
		for range rapid.IntRange(1, 8).Draw(rt, "files") {
			u, err := trySend(w, user, s, rapid.IntRange(1, 40).Draw(rt, "bytes"))
			if err != nil {
				rt.Fatal(err)
			}
			if u.FeeMsat < last {
				rt.Fatalf("%d msat after %d", u.FeeMsat, last)
			}
			last = u.FeeMsat
		}
	})
}

func TestImpossibleUploadSettings(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*community.Settings){
		"steps that fall":                func(s *community.Settings) { s.UploadSteps = [...]int64{3, 2, 1} },
		"no first step":                  func(s *community.Settings) { s.UploadSteps[0] = 0 },
		"fees that fall":                 func(s *community.Settings) { s.UploadFees[0] = 1 << 40 },
		"a negative fee":                 func(s *community.Settings) { s.UploadFees[0] = -1 },
		"a fee beyond all money":         func(s *community.Settings) { s.UploadFees[3] = paidaction.MaxMsat },
		"a negative fee for the unknown": func(s *community.Settings) { s.AnonymousUploadFee = -1 },
		"no upload at all":               func(s *community.Settings) { s.MaxUpload = 0 },
		"uploads beyond any memory":      func(s *community.Settings) { s.MaxUpload, s.MaxUnpaidUploadBytes = 1<<40, 1<<41 },
		"a bound below one upload":       func(s *community.Settings) { s.MaxUnpaidUploadBytes = s.MaxUpload - 1 },
		"room for less than one may":     func(s *community.Settings) { s.MaxUnpaidInAll = s.MaxUnpaidUploadBytes - 1 },
		"no time to claim":               func(s *community.Settings) { s.KeepUploads = 0 },
		"a negative edit window":         func(s *community.Settings) { s.EditWindow = -1 },
	} {
		s := community.DefaultSettings()
		if spoil(&s); s.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := community.DefaultSettings().Check(); err != nil {
		t.Error(err)
	}
}

// Whoever names files again while the post that carried them fails, or is paid, waits for them in the same order,
// whatever the order is in which they are stored.
func TestFilesOfAPostAreLockedInOneOrder(t *testing.T) {
	t.Parallel()
	for _, paid := range []bool{false, true} {
		w := enginetest.New(t, paidaction.Settings{})
		user := w.User("user", 0, 0)
		first, last := send(w, user), send(w, user)
		if first.ID > last.ID {
			first, last = last, first
		}
		pa := create(w, user, community.ItemCreateArgs{Title: "carries", Uploads: []int64{first.ID, last.ID}})
		// Now the other one comes first in the indexes.
		mustExec(w, `UPDATE upload SET created_at = created_at - interval '1 second' WHERE id = $1`, first.ID)
		tx, err := w.Pool.Begin(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		name := func(id int64) error {
			_, err := db.New(tx).LockUploads(w.Ctx, db.LockUploadsParams{Ids: []int64{id}, OwnerID: &user})
			return err
		}
		if err := name(first.ID); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			if paid {
				err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{})
				if err == nil {
					_, err = w.Engine.Drive(w.Ctx, pa.ID)
				}
				done <- err
				return
			}
			_, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID)
			done <- err
		}()
		w.AwaitBlocked(1)
		if err := errors.Join(name(last.ID), tx.Commit(w.Ctx), <-done); err != nil {
			t.Errorf("paid %t: %v", paid, err)
		}
		if w.Faults.Conflicts != 0 {
			t.Errorf("paid %t: %d conflicts", paid, w.Faults.Conflicts)
		}
	}
}
