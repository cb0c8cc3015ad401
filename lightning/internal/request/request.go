// Package request holds the rules an invoice request obeys before any node sees it.
package request

import (
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Check refuses what LND would accept but read differently: an amount of 0 (LND: any amount), an expiry of 0 (LND: a day)
// or with a fraction of a second (LND: cut off), and a preimage that does not belong to the hash (LND: ignores our hash).
// Such a request is a fault of the caller, so the error carries no code.
func Check(r paidaction.InvoiceRequest) error {
	switch {
	case r.Amount <= 0 || r.Amount > paidaction.MaxInvoice:
		return fmt.Errorf("invoice over %d msat", r.Amount)
	case r.Expiry < time.Second || r.Expiry%time.Second != 0:
		return fmt.Errorf("invoice expiry %v is not a whole number of seconds above zero", r.Expiry)
	case len(r.Memo) > paidaction.MaxMemo:
		return fmt.Errorf("invoice with a memo of %d bytes", len(r.Memo))
	case r.Hash == paidaction.Hash{}:
		return errors.New("invoice without a hash")
	case !r.Hold && (r.Preimage.IsZero() || r.Preimage.Hash() != r.Hash):
		return errors.New("plain invoice whose preimage does not belong to its hash")
	}
	return nil
}
