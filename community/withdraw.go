package community

import (
	"context"
	"fmt"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Withdraw pays a bolt11 or a lightning address from the payer's balance of sats.
type Withdraw struct {
	paidaction.Base[WithdrawArgs, WithdrawResult]
}

// WithdrawArgs say whom to pay, and what it may cost, in whole sats.
type WithdrawArgs struct {
	To         string `json:"to"`
	Sats       *int64 `json:"sats,omitempty"` // for an address; a bolt11 names its amount itself
	MaxFeeSats int64  `json:"maxFeeSats"`
	Comment    string `json:"comment,omitempty"`
}

// WithdrawResult is what is sent, in msat, and the most that routing may cost.
type WithdrawResult struct {
	Msat       int64 `json:"msat"`
	MaxFeeMsat int64 `json:"maxFeeMsat"`
}

// KindWithdraw names the action.
const KindWithdraw = "WITHDRAW"

const (
	maxPayee           = 4096
	maxWithdrawComment = 280
)

// Spec follows the table of spec 02 §2.3.
func (Withdraw) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindWithdraw, Methods: []paidaction.Method{paidaction.Outgoing}}
}

// Check refuses an empty payee, and impossible amounts.
func (Withdraw) Check(a WithdrawArgs) error {
	if strings.TrimSpace(a.To) != a.To {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "Remove the spaces around the invoice or address.")
	}
	if err := checkText("invoice or address", a.To, 1, maxPayee); err != nil {
		return err
	}
	if a.Sats != nil {
		if err := checkSats(*a.Sats); err != nil {
			return err
		}
	}
	if a.MaxFeeSats < 0 {
		return paidaction.Errorf(paidaction.CodeInvalidAmount, "The highest fee cannot be negative.")
	}
	if a.MaxFeeSats > 0 {
		if err := checkSats(a.MaxFeeSats); err != nil {
			return err
		}
	}
	return checkText("comment", a.Comment, 0, maxWithdrawComment)
}

// Payee is whom to pay.
func (Withdraw) Payee(a WithdrawArgs) paidaction.Payee {
	payee := paidaction.Payee{To: a.To, FeeLimit: paidaction.Msat(a.MaxFeeSats * 1000), Comment: a.Comment}
	if a.Sats != nil {
		payee.Amount = paidaction.Msat(*a.Sats * 1000)
	}
	return payee
}

// Cost is what leaves plus what routing may take; what routing does not take comes back.
func (Withdraw) Cost(_ context.Context, tx *paidaction.Tx, _ WithdrawArgs) (paidaction.Msat, error) {
	return tx.Payout.Amount + tx.Payout.Budget, nil
}

// Perform notes what is sent.
func (Withdraw) Perform(_ context.Context, tx *paidaction.Tx, _ WithdrawArgs) (WithdrawResult, error) {
	return WithdrawResult{Msat: int64(tx.Payout.Amount), MaxFeeMsat: int64(tx.Payout.Budget)}, nil
}

// OnPaid hands nothing out: the debit was posted when the withdrawal began.
func (Withdraw) OnPaid(context.Context, *paidaction.Tx, WithdrawArgs, WithdrawResult) error {
	return nil
}

// Describe is for the payer's own list.
func (Withdraw) Describe(a WithdrawArgs) string {
	if a.Sats != nil {
		return fmt.Sprintf("withdraw %d sats to %s", *a.Sats, a.To)
	}
	return "withdraw by invoice"
}

// AfterPaid tells the payer.
func (Withdraw) AfterPaid(ctx context.Context, tx *paidaction.Tx, _ WithdrawArgs, _ WithdrawResult) error {
	return tell(ctx, tx, "WITHDRAWN", nil, []int64{*tx.Payer})
}
