package wallet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const (
	maxLabel    = 60       // characters
	maxSettings = 32 << 10 // bytes; a macaroon and a certificate have less
	testAmount  = 1000     // msat; more if the wallet takes no less
	testMemo    = "A test of this wallet: it is not paid."
)

func errNoSuchWallet() error {
	return paidaction.Errorf(paidaction.CodeNotFound, "You have no such wallet.")
}

// Save tests a wallet, and stores it if it issued an invoice that our node can read. With id 0 it is a new wallet,
// asked last; otherwise it replaces that wallet of the user's.
//
// Errors: INVALID_INPUT, NOT_FOUND, WALLET_TOO_MANY, TRY_AGAIN while another wallet of the user's is tested, refusals
// of Decode, and the codes of this package that say what is wrong with the wallet. After any of them everything is as
// before.
func (w *Wallets) Save(ctx context.Context, user, id int64, label string, s Settings) (Wallet, error) {
	return w.SaveIf(ctx, user, id, label, s, always)
}

func always(context.Context, *db.Queries) error { return nil }

// SaveIf is Save for a caller whose right to it may end while the wallet is tested, and the wallet decides how long that
// takes: may is asked in the transaction that stores the wallet, and its error is returned.
func (w *Wallets) SaveIf(ctx context.Context, user, id int64, label string, s Settings, may func(context.Context, *db.Queries) error) (Wallet, error) {
	if utf8.RuneCountInString(label) > maxLabel || !utf8.ValidString(label) || slices.Contains([]byte(label), 0) {
		return Wallet{}, paidaction.Errorf(paidaction.CodeInvalidInput, "A wallet's label can have at most %d characters.", maxLabel)
	}
	s, err := s.tidied(w)
	if err != nil {
		return Wallet{}, err
	}
	// They are read whenever somebody pays their owner.
	if text, err := json.Marshal(s); err != nil || len(text) > maxSettings {
		return Wallet{}, paidaction.Errorf(paidaction.CodeInvalidInput, "These settings are too long to be those of a wallet.")
	}
	// Call nobody for what will be refused anyhow.
	if err := w.roomFor(ctx, db.New(w.Pool), user, id); err != nil {
		return Wallet{}, err
	}
	if _, busy := w.testing.LoadOrStore(user, true); busy {
		return Wallet{}, paidaction.Errorf(paidaction.CodeTryAgain, "One of your wallets is being tested. Try again when that is done.")
	}
	ms, err := func() (int64, error) {
		defer w.testing.Delete(user) // also if the test panics
		return w.test(ctx, s)
	}()
	if err != nil {
		return Wallet{}, err
	}
	if id, err = w.store(ctx, user, id, label, s, may); err != nil {
		return Wallet{}, err
	}
	w.note(ctx, id, 0, nil, ms)
	return w.one(ctx, user, id)
}

// roomFor refuses one wallet too many, and replacing a wallet that is not the user's.
func (w *Wallets) roomFor(ctx context.Context, q *db.Queries, user, id int64) error {
	rows, err := q.WalletsOfUser(ctx, user)
	if err != nil {
		return fmt.Errorf("read wallets: %w", err)
	}
	if id != 0 && !slices.ContainsFunc(rows, func(r db.WalletsOfUserRow) bool { return r.ID == id }) {
		return errNoSuchWallet()
	}
	if id == 0 && len(rows) >= w.Limits.Wallets {
		return paidaction.Errorf(CodeTooMany, "You have %d wallets, which is the most there can be. Remove one first.", len(rows))
	}
	return nil
}

// test lets a wallet issue an invoice and our node read it. It returns how long the wallet took, in ms.
func (w *Wallets) test(ctx context.Context, s Settings) (ms int64, err error) {
	begun := w.Now()
	issued, err := w.ask(ctx, s, Request{Amount: testAmount, Memo: testMemo, Expiry: invoiceExpiry, least: true})
	if err != nil {
		return 0, err
	}
	ms = w.Now().Sub(begun).Milliseconds()
	read, err := w.Decode(ctx, issued.bolt11)
	if err != nil {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if refusal, ok := paidaction.AsRefusal(err); ok {
			return 0, refusal
		}
		return 0, paidaction.Errorf(CodeBadInvoice, "The wallet issued an invoice that our node cannot read. Check that the wallet is on the same network.")
	}
	// Wallets may cut off less than a sat (spec 05.11).
	if read.Amount > issued.asked || read.Amount <= issued.asked-1000 {
		return 0, paidaction.Errorf(CodeBadInvoice, "The wallet was asked for an invoice for %s msat, and issued one for %s.", issued.asked, read.Amount)
	}
	return ms, nil
}

// store writes a tested wallet.
func (w *Wallets) store(ctx context.Context, user, id int64, label string, s Settings, may func(context.Context, *db.Queries) error) (int64, error) {
	added := id == 0
	err := w.change(ctx, user, may, func(q *db.Queries) (err error) {
		// Check again: there may be one more or one less by now.
		if err := w.roomFor(ctx, q, user, id); err != nil {
			return err
		}
		if added {
			if id, err = q.NextWalletID(ctx); err != nil {
				return fmt.Errorf("number a wallet: %w", err)
			}
		}
		sealed, err := w.sealSettings(place{id, user, s.Kind()}, s)
		if err != nil {
			return err
		}
		if added {
			err = q.InsertWallet(ctx, db.InsertWalletParams{ID: id, UserID: user, Kind: string(s.Kind()), Label: label, Settings: sealed, At: w.Now()})
		} else {
			err = q.ReplaceWallet(ctx, db.ReplaceWalletParams{ID: id, UserID: user, Kind: string(s.Kind()), Label: label, Settings: sealed, At: w.Now()})
		}
		if err != nil {
			return fmt.Errorf("store a wallet: %w", err)
		}
		return nil
	})
	return id, err
}

// change runs one transaction on a user's wallets, unless the caller may not any more; those of one user run one after
// the other.
func (w *Wallets) change(ctx context.Context, user int64, may func(context.Context, *db.Queries) error, do func(*db.Queries) error) error {
	return db.InTransaction(ctx, w.Pool, func(tx *db.Transaction) error {
		q := db.New(tx)
		if _, err := q.LockUser(ctx, user); err != nil {
			return fmt.Errorf("lock the user: %w", err)
		}
		if err := do(q); err != nil {
			return err
		}
		return may(ctx, q) // last: it may have waited for its turn
	})
}

// Enable sets whether a wallet is asked. NOT_FOUND where it is not the user's.
func (w *Wallets) Enable(ctx context.Context, user, id int64, enabled bool) (Wallet, error) {
	return w.EnableIf(ctx, user, id, enabled, always)
}

// EnableIf is to Enable what SaveIf is to Save.
func (w *Wallets) EnableIf(ctx context.Context, user, id int64, enabled bool, may func(context.Context, *db.Queries) error) (Wallet, error) {
	err := w.change(ctx, user, may, func(q *db.Queries) error {
		n, err := q.EnableWallet(ctx, db.EnableWalletParams{ID: id, UserID: user, Enabled: enabled, At: w.Now()})
		if err != nil {
			return fmt.Errorf("enable a wallet: %w", err)
		}
		if n == 0 {
			return errNoSuchWallet()
		}
		return nil
	})
	if err != nil {
		return Wallet{}, err
	}
	return w.one(ctx, user, id)
}

// Remove deletes a wallet with its settings and its log. NOT_FOUND where it is not the user's.
func (w *Wallets) Remove(ctx context.Context, user, id int64) error {
	return w.RemoveIf(ctx, user, id, always)
}

// RemoveIf is Remove as EnableIf is Enable.
func (w *Wallets) RemoveIf(ctx context.Context, user, id int64, may func(context.Context, *db.Queries) error) error {
	return w.change(ctx, user, may, func(q *db.Queries) error {
		n, err := q.DeleteWallet(ctx, db.DeleteWalletParams{ID: id, UserID: user})
		if err != nil {
			return fmt.Errorf("remove a wallet: %w", err)
		}
		if n == 0 {
			return errNoSuchWallet()
		}
		return nil
	})
}

// Reorder sets the order in which a user's wallets are asked. INVALID_INPUT unless each of them is named once.
func (w *Wallets) Reorder(ctx context.Context, user int64, ids []int64) ([]Wallet, error) {
	return w.ReorderIf(ctx, user, ids, always)
}

// ReorderIf is Reorder as EnableIf is Enable.
func (w *Wallets) ReorderIf(ctx context.Context, user int64, ids []int64, may func(context.Context, *db.Queries) error) ([]Wallet, error) {
	err := w.change(ctx, user, may, func(q *db.Queries) error {
		rows, err := q.WalletsOfUser(ctx, user)
		if err != nil {
			return fmt.Errorf("read wallets: %w", err)
		}
		var own []int64
		for _, r := range rows {
			own = append(own, r.ID)
		}
		if !slices.Equal(slices.Sorted(slices.Values(own)), slices.Sorted(slices.Values(ids))) {
			return paidaction.Errorf(paidaction.CodeInvalidInput, "Name each of your wallets once, in the order in which to ask them.")
		}
		if err := q.OrderWallets(ctx, db.OrderWalletsParams{UserID: user, Ids: ids}); err != nil {
			return fmt.Errorf("order wallets: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w.List(ctx, user)
}

// List returns a user's wallets, in the order in which they are asked.
func (w *Wallets) List(ctx context.Context, user int64) ([]Wallet, error) {
	rows, err := db.New(w.Pool).WalletsOfUser(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("read wallets: %w", err)
	}
	list := make([]Wallet, len(rows))
	for i, r := range rows {
		list[i] = Wallet{ID: r.ID, Kind: Kind(r.Kind), Label: r.Label, Priority: int(r.Priority), Enabled: r.Enabled,
			CreatedAt: r.CreatedAt, ChangedAt: r.ChangedAt}
	}
	return list, nil
}

func (w *Wallets) one(ctx context.Context, user, id int64) (Wallet, error) {
	list, err := w.List(ctx, user)
	if err != nil {
		return Wallet{}, err
	}
	i := slices.IndexFunc(list, func(x Wallet) bool { return x.ID == id })
	if i < 0 {
		return Wallet{}, errNoSuchWallet() // removed meanwhile
	}
	return list[i], nil
}
