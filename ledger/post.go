package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// ErrInsufficient says that a user's balance does not cover a debit. The conditional debit itself finds this out; the
// transaction must be rolled back.
var ErrInsufficient = errors.New("the balance does not suffice")

// Transfer moves Msat (above zero) from one account to another of the same asset.
type Transfer struct {
	From, To Account
	Msat     int64
	Reason   string // what it was for, in a few words: "zap", "overpaid", "unused routing fee"
}

// Entry is what one action books.
type Entry struct {
	Action    *int64 // nil: it belongs to no action
	Transfers []Transfer
}

// Post books what one action books, as PostAll does.
func Post(ctx context.Context, q *db.Queries, action *int64, at time.Time, transfers []Transfer) error {
	return PostAll(ctx, q, at, []Entry{{action, transfers}})
}

// PostAll books transfers inside the caller's transaction. A conditional update takes what leaves a user's account, so
// that two payments at once cannot spend the same money; everything else is appended. Call it last in a transaction:
// then the payers' accounts are locked only during the commit.
//
// It returns ErrInsufficient where a user's balance does not cover what leaves it.
func PostAll(ctx context.Context, q *db.Queries, at time.Time, entries []Entry) error {
	return post(ctx, q, at, entries, debitAll)
}

// PostUnseen is PostAll without waiting for an answer: it assumes that each folded balance suffices. If one does not,
// the transaction fails, here or later, with an error that IsShort recognises, and can be repeated with PostAll. The
// transaction must have begun with PlanOnce: only then are the accounts locked in the order of their numbers.
func PostUnseen(ctx context.Context, q *db.Queries, at time.Time, entries []Entry) error {
	return post(ctx, q, at, entries, debitUnseen)
}

// IsShort reports whether a transaction failed because the assumption of PostUnseen was wrong.
func IsShort(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "HF004"
}

func post(ctx context.Context, q *db.Queries, at time.Time, entries []Entry, debit func(context.Context, *db.Queries, map[Account]int64) error) error {
	postings := db.InsertPostingsParams{At: at}
	debits, deltas := map[Account]int64{}, sums{at: map[Account]int{}}
	for _, e := range entries {
		for _, t := range e.Transfers {
			if t.Msat <= 0 || t.From == t.To || t.From.Asset() != t.To.Asset() {
				return fmt.Errorf("ledger: impossible transfer of %d msat from %s to %s", t.Msat, t.From, t.To)
			}
			action := int64(0)
			if e.Action != nil {
				action = *e.Action
			}
			postings.ActionIds = append(postings.ActionIds, action)
			postings.Froms = append(postings.Froms, int64(t.From))
			postings.Tos = append(postings.Tos, int64(t.To))
			postings.Msats = append(postings.Msats, t.Msat)
			postings.Reasons = append(postings.Reasons, t.Reason)
			if t.From.Owner() != 0 {
				debits[t.From] = Sum(debits[t.From], t.Msat)
			} else {
				deltas.add(t.From, -t.Msat)
			}
			deltas.add(t.To, t.Msat)
		}
	}
	if len(postings.Msats) == 0 {
		return nil
	}
	if err := q.InsertPostings(ctx, postings); err != nil {
		return fmt.Errorf("insert postings: %w", err)
	}
	// Debit before the receipts are appended: nobody may pay with what this very payment brings them.
	if err := debit(ctx, q, debits); err != nil {
		return err
	}
	if err := q.InsertDeltas(ctx, deltas.rows); err != nil {
		return fmt.Errorf("insert balance deltas: %w", err)
	}
	return nil
}

// Sum is what several debits of an account take together, in msat. It stops at the most that an int64 holds, which no
// balance covers: a sum that wrapped around would be given to the account.
func Sum(taken, msat int64) int64 {
	if taken > math.MaxInt64-msat {
		return math.MaxInt64
	}
	return taken + msat
}

// sums are the deltas of one transaction, one for each account that it changes.
type sums struct {
	rows db.InsertDeltasParams
	at   map[Account]int
}

func (s *sums) add(a Account, msat int64) {
	at, known := s.at[a]
	if !known {
		at = len(s.rows.Accounts)
		s.at[a] = at
		s.rows.Accounts, s.rows.Msats = append(s.rows.Accounts, int64(a)), append(s.rows.Msats, 0)
	}
	s.rows.Msats[at] += msat
}

// debitAll debits users' accounts, in the same order everywhere, so that no two transactions deadlock.
func debitAll(ctx context.Context, q *db.Queries, debits map[Account]int64) error {
	accounts := slices.Sorted(maps.Keys(debits))
	if len(accounts) > 1 { // a single account is locked by its debit
		if err := Lock(ctx, q, accounts...); err != nil {
			return err
		}
		done, err := q.DebitAll(ctx, db.DebitAllParams(amounts(accounts, debits)))
		if err != nil {
			return fmt.Errorf("debit accounts: %w", err)
		}
		accounts = slices.DeleteFunc(accounts, func(a Account) bool { return slices.Contains(done, int64(a)) })
	}
	for _, a := range accounts {
		if err := debit(ctx, q, a, debits[a]); err != nil {
			return err
		}
	}
	return nil
}

// debitUnseen is debitAll for balances that are assumed to suffice. It locks the accounts as it changes them, in the
// same order.
func debitUnseen(ctx context.Context, q *db.Queries, debits map[Account]int64) error {
	if len(debits) == 0 {
		return nil
	}
	if err := q.DebitUnseen(ctx, amounts(slices.Sorted(maps.Keys(debits)), debits)); err != nil {
		return fmt.Errorf("debit accounts: %w", err)
	}
	return nil
}

// amounts pairs these accounts with what each is to give.
func amounts(accounts []Account, debits map[Account]int64) (all db.DebitUnseenParams) {
	for _, a := range accounts {
		all.Ids, all.Msats = append(all.Ids, int64(a)), append(all.Msats, debits[a])
	}
	return all
}

// debit takes msat from a user's account. If the folded balance does not suffice, it first folds in what was received
// since, under the account's lock.
func debit(ctx context.Context, q *db.Queries, a Account, msat int64) error {
	take := db.DebitParams{ID: int64(a), Msat: msat}
	n, err := q.Debit(ctx, take)
	if err != nil {
		return fmt.Errorf("debit %s: %w", a, err)
	}
	if n == 1 {
		return nil
	}
	if err := fold(ctx, q, a); err != nil {
		return err
	}
	if n, err = q.Debit(ctx, take); err != nil {
		return fmt.Errorf("debit %s: %w", a, err)
	}
	if n == 0 {
		return ErrInsufficient
	}
	return nil
}

// fold adds the deltas of an account to its balance. It locks the account before it touches its deltas, in the same order
// as a debit.
func fold(ctx context.Context, q *db.Queries, a Account) error {
	if err := Lock(ctx, q, a); err != nil {
		return err
	}
	if _, err := q.FoldAccounts(ctx, []int64{int64(a)}); err != nil {
		return fmt.Errorf("fold the balance of %s: %w", a, err)
	}
	return nil
}

// Fold folds the accounts of the oldest deltas, inside the caller's transaction, and returns how many accounts it
// touched. page is how many deltas it looks at. Balances read the same before and after. It is for a transaction that
// locks no account before or after it: the accounts are in order among themselves alone, and it can have locked some
// though it touched none, where another fold was faster.
func Fold(ctx context.Context, q *db.Queries, page int32) (accounts int, err error) {
	n, err := q.FoldOldest(ctx, page)
	if err != nil {
		return 0, fmt.Errorf("fold the oldest balances: %w", err)
	}
	return int(n), nil
}

// Lock makes everybody else who locks or folds these accounts wait until the caller's transaction ends. Payments do not
// wait for the system's accounts.
func Lock(ctx context.Context, q *db.Queries, accounts ...Account) error {
	ids := make([]int64, len(accounts))
	for i, a := range accounts {
		ids[i] = int64(a)
	}
	if err := q.LockAccounts(ctx, ids); err != nil {
		return fmt.Errorf("lock accounts: %w", err)
	}
	return nil
}

// Cover returns the balances, in msat, of the users who are to pay these amounts: exact where a balance does not
// suffice, otherwise at least the amount. It locks nothing: the debit decides.
func Cover(ctx context.Context, q *db.Queries, asked map[Account]int64) (map[Account]int64, error) {
	all := amounts(slices.Sorted(maps.Keys(asked)), asked)
	rows, err := q.BalancesToCover(ctx, db.BalancesToCoverParams{Ids: all.Ids, Msats: all.Msats})
	if err != nil {
		return nil, fmt.Errorf("read balances: %w", err)
	}
	held := make(map[Account]int64, len(rows))
	for _, row := range rows {
		held[Account(row.ID)] = row.Balance
	}
	return held, nil
}

// Balance is what the account holds, in msat, including unfolded receipts.
func Balance(ctx context.Context, q *db.Queries, a Account) (int64, error) {
	n, err := q.Balance(ctx, int64(a))
	if err != nil {
		return 0, fmt.Errorf("balance of %s: %w", a, err)
	}
	return n, nil
}
