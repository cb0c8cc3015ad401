package wallet

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const (
	invoiceExpiry = 10 * time.Minute
	soonest       = 2 * time.Second
)

// Has reports whether a user has a wallet that can be asked.
func (w *Wallets) Has(ctx context.Context, user int64) (bool, error) {
	has, err := db.New(w.Pool).HasWallet(ctx, user)
	if err != nil {
		return false, fmt.Errorf("look for wallets: %w", err)
	}
	return has, nil
}

// Asked reports whether a wallet is still asked for invoices: its owner has neither removed nor disabled it. Replacing its
// settings does not matter: what it issued before is still its owner's.
func (w *Wallets) Asked(ctx context.Context, wallet int64) (bool, error) {
	asked, err := db.New(w.Pool).WalletIsAsked(ctx, wallet)
	if err != nil {
		return false, fmt.Errorf("look for wallet %d: %w", wallet, err)
	}
	return asked, nil
}

// Each asks the receiver's wallets in order for an invoice, and passes each invoice to try until try returns nil.
// genesis is the first attempt of what is to be paid, or 0 if this is it. A wallet that failed for it comes after those
// that did not. A wallet is left out if it failed twice, or if the limit of its invoices waits unpaid inside ours. A
// refusal, by the wallet or by try, is logged for the owner in its own words and counted against the wallet (except
// that no node of ours can be asked); then comes the next one. Any other error of try is a fault of ours: no wallet is
// blamed for it, and no further one is asked.
//
// Errors: ErrNoWallet, also if the remaining wallets could not answer in time; the end of ctx; faults of the database
// and of try.
func (w *Wallets) Each(ctx context.Context, receiver, genesis int64, amount paidaction.Msat, memo string, try func(wallet int64, bolt11 string) error) error {
	rows, err := db.New(w.Pool).UsableWallets(ctx, db.UsableWalletsParams{UserID: receiver, GenesisID: genesis, Failures: int32(w.Limits.Failures), Pending: w.Limits.Pending})
	if err != nil {
		return fmt.Errorf("read wallets: %w", err)
	}
	request := Request{Amount: amount, Memo: memo, Expiry: invoiceExpiry}
	search, cancel := context.WithTimeout(ctx, w.Limits.Search)
	defer cancel()
	for i, row := range rows {
		// Do not ask a wallet that has hardly any time left to answer: that would count as its failure.
		if until, _ := search.Deadline(); i > 0 && time.Until(until) < min(soonest, w.Limits.Search/10) {
			break
		}
		var ms int64
		offer := func(r Request) error {
			begun := w.Now()
			bolt11, err := w.issued(search, place{row.ID, receiver, Kind(row.Kind)}, row.Settings, r)
			if ms = w.Now().Sub(begun).Milliseconds(); err != nil {
				return err
			}
			return try(row.ID, bolt11)
		}
		err := offer(request)
		// Some wallets round to whole sats, and as often up as down. An invoice that is short by less than a sat will do.
		if whole := amount - amount%1000; errors.Is(err, paidaction.Refused(paidaction.CodeAboveRequest)) && 0 < whole && whole < amount {
			err = offer(Request{Amount: whole, Memo: memo, Expiry: invoiceExpiry})
		}
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, refusal := paidaction.AsRefusal(err); err != nil && !refusal {
			return err
		}
		w.note(ctx, row.ID, genesis, err, ms)
		if err == nil {
			return nil
		}
	}
	return ErrNoWallet
}

// issued gets an invoice from a wallet as it is stored.
func (w *Wallets) issued(ctx context.Context, p place, sealed []byte, r Request) (string, error) {
	s, err := w.openSettings(p, sealed)
	if err != nil {
		w.Log.ErrorContext(ctx, "the settings of a wallet cannot be opened", "wallet", p.wallet, "error", err)
		return "", errUnopened
	}
	got, err := w.ask(ctx, s, r)
	return got.bolt11, err
}

// bolt11Pattern matches what could be an invoice; the node says whether it is one.
var bolt11Pattern = regexp.MustCompile(`^ln[a-z0-9]{20,}$`)

const maxBolt11 = 4096 // bytes; an invoice with many route hints has about 1,500

// ask gets an invoice from a wallet, within the time limit of one call. The error is a refusal, or the end of ctx.
func (w *Wallets) ask(ctx context.Context, s Settings, r Request) (invoice, error) {
	ctx, cancel := context.WithTimeout(ctx, w.Limits.Call)
	defer cancel()
	got, err := s.issue(ctx, w, r)
	if err != nil {
		return invoice{}, explain(ctx, err)
	}
	got.bolt11 = strings.ToLower(strings.TrimSpace(got.bolt11))
	if len(got.bolt11) > maxBolt11 || !bolt11Pattern.MatchString(got.bolt11) {
		return invoice{}, errBadAnswer
	}
	return got, nil
}

// Failed notes, in the caller's transaction, that the payment of a wallet's invoice failed, with the node's reason. It
// counts as a failure of the wallet, unless the fault was ours.
func (w *Wallets) Failed(ctx context.Context, q *db.Queries, wallet, genesis int64, reason paidaction.FailureReason) error {
	why, theirs := ofPayment(reason)
	if !theirs {
		return nil
	}
	return w.record(ctx, q, wallet, genesis, why, 0)
}

// note is record for callers that must not fail with it.
func (w *Wallets) note(ctx context.Context, wallet, genesis int64, failure error, ms int64) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if err := w.record(limited, db.New(w.Pool), wallet, genesis, failure, ms); err != nil {
		w.Log.WarnContext(ctx, "what became of a wallet's invoice could not be noted", "wallet", wallet, "error", err)
	}
}

const (
	noteTimeout = 5 * time.Second
	// forgetEvery is how many log entries lie between two clean-ups of a wallet's log. It is a prime, because ids are
	// shared by all wallets: if a few wallets are asked in turn, none of them may be passed over for ever.
	forgetEvery = 53
)

// record logs what became of an invoice. failure is nil or a refusal, which it counts.
func (w *Wallets) record(ctx context.Context, q *db.Queries, wallet, genesis int64, failure error, ms int64) error {
	entry := db.AppendWalletLogParams{WalletID: wallet, Ok: failure == nil, Code: string(CodeInvoiceIssued), Message: "The wallet issued an invoice.",
		Ms: ms, At: w.Now()}
	if genesis != 0 {
		entry.GenesisID = &genesis
	}
	if refusal, ok := paidaction.AsRefusal(failure); ok {
		entry.Code, entry.Message = string(refusal.Code), refusal.Message
	}
	id, err := q.AppendWalletLog(ctx, entry)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // removed meanwhile
	}
	if err != nil {
		return fmt.Errorf("log for wallet %d: %w", wallet, err)
	}
	// An unavailable node of ours is no failure of the wallet, just as with failed payments (ofPayment).
	if failure != nil && genesis != 0 && !errors.Is(failure, paidaction.Refused(paidaction.CodeLightningUnavailable)) {
		if err := q.CountWalletFailure(ctx, db.CountWalletFailureParams{GenesisID: genesis, WalletID: wallet}); err != nil {
			return fmt.Errorf("count a failure of wallet %d: %w", wallet, err)
		}
	}
	if id%forgetEvery == 0 {
		if err := q.ForgetWalletLog(ctx, db.ForgetWalletLogParams{WalletID: wallet, Kept: int32(w.Limits.Log)}); err != nil {
			return fmt.Errorf("forget old entries of wallet %d: %w", wallet, err)
		}
	}
	return nil
}

// failuresKept is how long a failure counts, from when the payment was begun: longer than anything is retried. If it
// were forgotten too soon, the wallet would be asked once more.
const failuresKept = 30 * 24 * time.Hour

// Sweep deletes failures for payments begun long ago, a page at a time.
func Sweep(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error) {
	const page = 100
	n, err := q.DeleteWalletFailures(ctx, db.DeleteWalletFailuresParams{Before: now.Add(-failuresKept), Page: page})
	if err != nil {
		return false, fmt.Errorf("delete old failures of wallets: %w", err)
	}
	return n >= page, nil // can exceed page: all failures of one genesis go together
}
