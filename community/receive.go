package community

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Receive is a payment from outside to a user's lightning address (LUD-16). It goes directly to the user's own wallet
// if they have one, otherwise to their balance of sats.
type Receive struct {
	paidaction.Base[ReceiveArgs, ReceiveResult]
	Settings Settings
}

// ReceiveArgs say who gets how many msat, and what only they are told: a comment, and who the payer claims to be.
type ReceiveArgs struct {
	User    int64   `json:"user"`
	Msat    int64   `json:"msat"`
	Comment string  `json:"comment,omitempty"`
	Sender  *Sender `json:"sender,omitempty"`
	// Described is the SHA-256 of what the payer's wallet was shown before (LUD-06), 32 bytes; empty if it was shown
	// nothing.
	Described []byte `json:"described,omitempty"`
}

// Sender is what payers say about themselves (LUD-18). None of it is verified.
type Sender struct {
	Name       string `json:"name,omitempty"`
	Identifier string `json:"identifier,omitempty"` // a lightning address or the like
	Email      string `json:"email,omitempty"`
}

// ReceiveResult is what was received, in msat.
type ReceiveResult struct {
	Msat int64 `json:"msat"`
}

// KindReceive names the action.
const KindReceive = "RECEIVE"

// The lengths of what a payer can say, in characters.
const (
	MaxReceiveComment = 280
	maxSenderText     = 120
)

// Spec follows the table of spec 02 §2.3.
func (Receive) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindReceive, Anonable: true, Methods: []paidaction.Method{paidaction.P2P, paidaction.Pessimistic}}
}

// Check refuses amounts that are not whole sats, and texts that are too long.
func (Receive) Check(a ReceiveArgs) error {
	if a.Msat <= 0 || a.Msat%1000 != 0 || paidaction.Msat(a.Msat) > paidaction.MaxMsat {
		return paidaction.Errorf(paidaction.CodeInvalidAmount, "The amount must be a whole number of sats above zero.")
	}
	if len(a.Described) != 0 && len(a.Described) != sha256.Size {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "The hash of the description has the wrong length.")
	}
	if s := a.Sender; s != nil {
		if err := cmp.Or(checkText("payer's name", s.Name, 0, maxSenderText), checkText("payer's identifier", s.Identifier, 0, maxSenderText),
			checkText("payer's email", s.Email, 0, maxSenderText)); err != nil {
			return err
		}
	}
	return checkText("comment", a.Comment, 0, MaxReceiveComment)
}

// DescriptionHash is the hash of what the payer's wallet was shown.
func (Receive) DescriptionHash(a ReceiveArgs) (hash [32]byte) {
	copy(hash[:], a.Described)
	return hash
}

// Cost is what is sent. Users who do not exist can receive nothing.
func (Receive) Cost(ctx context.Context, tx *paidaction.Tx, a ReceiveArgs) (paidaction.Msat, error) {
	if _, err := tx.DB.Trust(ctx, a.User); errors.Is(err, pgx.ErrNoRows) {
		return 0, paidaction.Errorf(paidaction.CodeNotFound, "Nobody has this address.")
	} else if err != nil {
		return 0, fmt.Errorf("look for the receiver: %w", err)
	}
	return paidaction.Msat(a.Msat), nil
}

// leastRouting is what routing may cost of a small payment, before anything of it is for the rewards: hardly any route
// costs less (spec 03 §3.2).
const leastRouting paidaction.Msat = 1000

// Peers is the owner of the address. Routing gets what neither they nor the rewards do.
func (r Receive) Peers(_ context.Context, tx *paidaction.Tx, a ReceiveArgs) ([]paidaction.Peer, error) {
	share := tx.Cost.Percent(r.Settings.ReceivedPct)
	fee := min(tx.Cost.Percent(r.Settings.ReceiveFeePct), tx.Cost-share-leastRouting)
	return []paidaction.Peer{{Receiver: a.User, Share: share, Fee: max(0, fee)}}, nil
}

// Perform has nothing to show yet.
func (Receive) Perform(_ context.Context, tx *paidaction.Tx, _ ReceiveArgs) (ReceiveResult, error) {
	return ReceiveResult{Msat: int64(tx.Cost)}, nil
}

// OnPaid hands out the money. What the receiver was not paid directly goes to their sats; the fee, and what routing
// does not need, goes to the rewards.
func (r Receive) OnPaid(_ context.Context, tx *paidaction.Tx, a ReceiveArgs, _ ReceiveResult) error {
	rest := tx.Cost
	if tx.Forward != nil {
		rest -= tx.Forward.Amount + tx.Forward.Budget
	} else {
		share := tx.Cost.Percent(r.Settings.ReceivedPct)
		if err := tx.Pay(ledger.UserSats(a.User), share, "received"); err != nil {
			return err
		}
		rest -= share
	}
	return tx.Pay(ledger.RewardSats, rest, "fee of a received payment")
}

// Describe is what the payer's wallet shows.
func (Receive) Describe(a ReceiveArgs) string {
	if a.Comment != "" {
		return a.Comment
	}
	return fmt.Sprintf("send %d sats", a.Msat/1000)
}

// AfterPaid tells the receiver and their webhooks, but not people who pay themselves.
func (Receive) AfterPaid(ctx context.Context, tx *paidaction.Tx, a ReceiveArgs, _ ReceiveResult) error {
	if tx.Payer != nil && *tx.Payer == a.User {
		return nil
	}
	if err := tx.DB.TellReceiver(ctx, db.TellReceiverParams{Receiver: a.User, Kind: "RECEIVED", ActionID: &tx.Action, At: tx.Now}); err != nil {
		return fmt.Errorf("tell the receiver: %w", err)
	}
	return nil
}
