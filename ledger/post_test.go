package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// books is a ledger with some users.
type books struct {
	testing.TB
	pool  *pgxpool.Pool
	users []int64
}

func open(t testing.TB, users int) *books {
	t.Helper()
	b := &books{TB: t, pool: pgtest.New(t)}
	for i := range users {
		id, err := db.New(b.pool).InsertUser(t.Context(), db.InsertUserParams{Name: fmt.Sprint("user_", i), CreatedAt: at})
		if err != nil {
			t.Fatal(err)
		}
		b.users = append(b.users, id)
	}
	return b
}

// post books transfers in a transaction of their own.
func (b *books) post(transfers ...ledger.Transfer) error {
	return pgx.BeginFunc(b.Context(), b.pool, func(tx pgx.Tx) error { return ledger.Post(b.Context(), db.New(tx), nil, at, transfers) })
}

// postUnseen books them in a transaction that waits for as little as it can.
func (b *books) postUnseen(transfers []ledger.Transfer) error {
	return db.InTransaction(b.Context(), b.pool, func(tx *db.Transaction) error {
		q := db.New(tx)
		if err := q.PlanOnce(b.Context()); err != nil {
			return err
		}
		return ledger.PostUnseen(b.Context(), q, at, []ledger.Entry{{Transfers: transfers}})
	})
}

func (b *books) fold() error {
	return pgx.BeginFunc(b.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := ledger.Fold(b.Context(), db.New(tx), 100)
		return err
	})
}

func (b *books) balance(a ledger.Account) int64 {
	b.Helper()
	n, err := ledger.Balance(b.Context(), db.New(b.pool), a)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// Any sequence of transfers and folds, against a model that is a map: balances agree at every step, no user goes below zero,
// and what is refused changes nothing.
func TestBooksAgreeWithAModel(t *testing.T) {
	t.Parallel()
	b := open(t, 3)
	model := map[ledger.Account]int64{}
	accounts := []ledger.Account{ledger.Lightning, ledger.RewardSats}
	for _, u := range b.users {
		accounts = append(accounts, ledger.UserSats(u))
	}
	rapid.Check(t, func(t *rapid.T) {
		for _, u := range b.users { // whatever is folded in of it, all that somebody holds can be spent: balances stay near what is spent
			if all := ledger.UserSats(u); model[all] > 0 {
				if err := b.post(ledger.Transfer{From: all, To: ledger.Lightning, Msat: model[all], Reason: "test"}); err != nil {
					t.Fatalf("%s cannot spend its %d msat: %v", all, model[all], err)
				}
				model[ledger.Lightning] += model[all]
				model[all] = 0
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"transfer": func(t *rapid.T) {
				from, to := rapid.SampledFrom(accounts).Draw(t, "from"), rapid.SampledFrom(accounts).Draw(t, "to")
				msat := rapid.Int64Range(-5, 1000).Draw(t, "msat")
				err := b.post(ledger.Transfer{From: from, To: to, Msat: msat, Reason: "test"})
				possible := msat > 0 && from != to
				enough := from.Owner() == 0 || model[from] >= msat
				switch {
				case possible && enough && err != nil:
					t.Fatal(err)
				case possible && !enough && !errors.Is(err, ledger.ErrInsufficient):
					t.Fatalf("%d msat of %d: %v", msat, model[from], err)
				case !possible && err == nil:
					t.Fatalf("%d msat from %s to %s was booked", msat, from, to)
				}
				if err == nil {
					model[from] -= msat
					model[to] += msat
				}
			},
			"transfers": func(t *rapid.T) {
				unseen := rapid.Bool().Draw(t, "unseen")
				post := func(transfers []ledger.Transfer) error { return b.post(transfers...) }
				short := func(err error) bool { return errors.Is(err, ledger.ErrInsufficient) }
				if unseen {
					post, short = b.postUnseen, ledger.IsShort
				}
				var transfers []ledger.Transfer
				spent := map[ledger.Account]int64{}
				for range rapid.IntRange(1, 3).Draw(t, "transfers") {
					from, to := rapid.SampledFrom(accounts).Draw(t, "from"), rapid.SampledFrom(accounts).Draw(t, "to")
					if from != to {
						msat := rapid.Int64Range(1, 500).Draw(t, "msat")
						transfers, spent[from] = append(transfers, ledger.Transfer{From: from, To: to, Msat: msat, Reason: "test"}), spent[from]+msat
					}
				}
				enough := true
				for a, msat := range spent {
					enough = enough && (a.Owner() == 0 || model[a] >= msat)
				}
				err := post(transfers)
				if unseen && short(err) && enough { // but for what was received since the last fold
					if err := b.fold(); err != nil {
						t.Fatal(err)
					}
					err = post(transfers)
				}
				if err != nil && (enough || !short(err)) || err == nil && !enough {
					t.Fatalf("%v, where the balances suffice: %t", err, enough)
				}
				if err == nil {
					for _, one := range transfers {
						model[one.From] -= one.Msat
						model[one.To] += one.Msat
					}
				}
			},
			"fold": func(t *rapid.T) {
				if err := b.fold(); err != nil {
					t.Fatal(err)
				}
			},
			"cover": func(t *rapid.T) {
				asked := map[ledger.Account]int64{}
				for _, u := range b.users {
					asked[ledger.UserSats(u)] = rapid.Int64Range(1, 2000).Draw(t, "asked")
				}
				held, err := ledger.Cover(b.Context(), db.New(b.pool), asked)
				if err != nil || len(held) != len(asked) {
					t.Fatal(held, err)
				}
				for a, msat := range asked {
					if suffices := model[a] >= msat; held[a] > model[a] || suffices != (held[a] >= msat) || !suffices && held[a] != model[a] {
						t.Fatalf("%s is said to hold %d for %d, the model %d", a, held[a], msat, model[a])
					}
				}
			},
			"": func(t *rapid.T) {
				for _, a := range accounts {
					if got := b.balance(a); got != model[a] {
						t.Fatalf("%s holds %d, the model %d", a, got, model[a])
					}
				}
			},
		})
	})
}

// What a transaction brings somebody is not there for what the same one takes from them.
func TestNobodyPaysWithWhatThePaymentBrings(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	payer := ledger.UserSats(b.users[0])
	err := b.post(ledger.Transfer{From: ledger.Lightning, To: payer, Msat: 5, Reason: "in"}, ledger.Transfer{From: payer, To: ledger.RewardSats, Msat: 5, Reason: "out"})
	if !errors.Is(err, ledger.ErrInsufficient) || b.balance(payer) != 0 {
		t.Errorf("%v, and %d msat are left", err, b.balance(payer))
	}
}

// What several debits take together may be more than an int64 holds. A sum that wraps around would be given to the payer.
func TestNobodyIsGivenWhatIsTooMuchToTake(t *testing.T) {
	t.Parallel()
	b := open(t, 6)
	payer := ledger.UserSats(b.users[0])
	var all []ledger.Transfer
	for _, receiver := range b.users[1:] {
		all = append(all, ledger.Transfer{From: payer, To: ledger.UserSats(receiver), Msat: 2_100_000_000_000_000_000, Reason: "zap"})
	}
	if err := b.postUnseen(all); !ledger.IsShort(err) {
		t.Errorf("unseen: %v", err)
	}
	if err := b.post(all...); !errors.Is(err, ledger.ErrInsufficient) {
		t.Errorf("seen: %v", err)
	}
	if left := b.balance(payer); left != 0 {
		t.Errorf("the payer has %d msat", left)
	}
}

// spec 05.6, 05.18: spending at once, while money comes in and is folded in, spends nothing twice and loses nothing.
func TestSpendingAtOnceSpendsNothingTwice(t *testing.T) {
	t.Parallel()
	b := open(t, 2)
	rich, poor := ledger.UserCredits(b.users[0]), ledger.UserCredits(b.users[1])
	const payments, each, covered = 60, 10, 25
	var spent, refused int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range covered {
		wg.Go(func() {
			if err := b.post(ledger.Transfer{From: ledger.IssuedCredits, To: poor, Msat: each, Reason: "in"}); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := b.fold(); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range payments {
		wg.Go(func() {
			out := ledger.Transfer{From: poor, To: rich, Msat: each, Reason: "out"}
			pay := func() error { return b.post(out) }
			if i%2 == 1 {
				pay = func() error { return b.postUnseen([]ledger.Transfer{out}) }
			}
			err := pay()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				spent++
			case errors.Is(err, ledger.ErrInsufficient), ledger.IsShort(err):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := b.balance(poor); got != int64(each*(covered-spent)) || got < 0 {
		t.Errorf("%d msat left after %d of %d payments", got, spent, payments)
	}
	if got := b.balance(rich); got != int64(each*spent) || spent+refused != payments {
		t.Errorf("%d msat arrived of %d payments; %d were refused", got, spent, refused)
	}
}

// Spec 05.17: of two that each take much from one account and little from another neither waits for the other, who waits for it: what is taken at once, and what
// has to be folded in before, is locked in one order.
func TestDebitsOfSeveralAtOnceAreInOneOrder(t *testing.T) {
	t.Parallel()
	b := open(t, 2)
	one, other := ledger.UserCredits(b.users[0]), ledger.UserCredits(b.users[1])
	take := func(a ledger.Account, msat int64) ledger.Transfer {
		return ledger.Transfer{From: a, To: ledger.RewardCredits, Msat: msat, Reason: "out"}
	}
	in := []ledger.Transfer{{From: ledger.IssuedCredits, To: one, Msat: 100, Reason: "in"}, {From: ledger.IssuedCredits, To: other, Msat: 100, Reason: "in"}}
	for range 20 {
		if err := errors.Join(b.post(in...), b.fold(), b.post(in...)); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for _, out := range [][]ledger.Transfer{{take(one, 150), take(other, 50)}, {take(one, 50), take(other, 150)}} {
			wg.Go(func() {
				if err := b.post(out...); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// Spec 05.17: whoever takes from several accounts takes them in the order of their numbers, and an account before what it
// has received. Who waits for one has taken all before it, and nothing that its holder may still need.
func TestAccountsAreTakenInOrder(t *testing.T) {
	t.Parallel()
	const each = 100 // msat, folded in, and as much again that is not
	for name, c := range map[string]struct {
		msat  int64 // what each pays
		alone bool  // one account is taken by itself
		post  func(*books, []ledger.Transfer) error
	}{
		"what suffices":               {each, false, func(b *books, out []ledger.Transfer) error { return b.post(out...) }},
		"what is to be folded in":     {2 * each, false, func(b *books, out []ledger.Transfer) error { return b.post(out...) }},
		"what is thought to suffice":  {each, false, (*books).postUnseen},
		"one that is to be folded in": {2 * each, true, func(b *books, out []ledger.Transfer) error { return errors.Join(b.post(out[0]), b.post(out[1:]...)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, 6)
			var in, out []ledger.Transfer
			for _, u := range b.users {
				in = append(in, ledger.Transfer{From: ledger.Lightning, To: ledger.UserSats(u), Msat: each, Reason: "in"})
				out = append(out, ledger.Transfer{From: ledger.UserSats(u), To: ledger.RewardSats, Msat: c.msat, Reason: "out"})
			}
			slices.Reverse(out)
			last := out[0].From
			if err := errors.Join(b.post(in...), b.fold(), b.post(in...)); err != nil {
				t.Fatal(err)
			}
			holder, err := b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
			if err := ledger.Lock(t.Context(), db.New(holder), last); err != nil {
				t.Fatal(err)
			}
			paid := make(chan error, 1)
			go func() { paid <- c.post(b, out) }()
			for waits := false; !waits; {
				select {
				case err := <-paid:
					t.Fatalf("nobody waits for the account that is locked; %v", err)
				default:
				}
				if err := b.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits); err != nil {
					t.Fatal(err)
				}
			}
			var free int
			if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT FROM account WHERE id >= 16 AND id % 16 = 0 FOR NO KEY UPDATE SKIP LOCKED) AS free`).
				Scan(&free); err != nil || free > 0 && !c.alone {
				t.Errorf("it waits for the last account, and %d before it are still free; %v", free, err)
			}
			if _, err := db.New(holder).FoldAccounts(t.Context(), []int64{int64(last)}); err != nil {
				t.Errorf("what the account has received was taken before the account: %v", err)
			}
			if err := errors.Join(holder.Commit(t.Context()), <-paid); err != nil {
				t.Error(err)
			}
			for _, o := range out {
				if got, want := b.balance(o.From), 2*each-c.msat; got != want {
					t.Errorf("%s holds %d msat, want %d", o.From, got, want)
				}
			}
		})
	}
}

// What the code refuses, the database refuses too.
func TestDatabaseGuardsTheBooks(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	user := int64(ledger.UserSats(b.users[0]))
	if err := b.post(ledger.Transfer{From: ledger.Lightning, To: ledger.UserSats(b.users[0]), Msat: 5, Reason: "in"}); err != nil {
		t.Fatal(err)
	}
	for sql, code := range map[string]string{
		`UPDATE account SET balance = -1 WHERE id = $1`:                                                                             "23514",
		`INSERT INTO balance_delta (account_id, msat) VALUES ($1, -1)`:                                                              "23514",
		`INSERT INTO posting (from_account, to_account, msat, reason, at) VALUES (0, $1, 0, 'x', now())`:                            "23514",
		`INSERT INTO posting (from_account, to_account, msat, reason, at) VALUES ($1::bigint, $1::bigint, 1, 'x', now())`:           "23514",
		`INSERT INTO posting (from_account, to_account, msat, reason, at) VALUES ($1::bigint, $1::bigint + 1, 1, 'credits', now())`: "23514",
		`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (99, 0, $1, 1, 'unknown', now())`:       "23503",
		`UPDATE posting SET msat = 6 WHERE to_account = $1`:                                                                         "HF002",
		`DELETE FROM posting WHERE to_account = $1`:                                                                                 "HF002",
		`INSERT INTO account (id) VALUES ($1::bigint + 2)`:                                                                          "23514",
	} {
		var pg *pgconn.PgError
		if _, err := b.pool.Exec(t.Context(), sql, user); !errors.As(err, &pg) || pg.Code != code {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if got := b.balance(ledger.UserSats(b.users[0])); got != 5 {
		t.Errorf("balance %d", got)
	}
}
