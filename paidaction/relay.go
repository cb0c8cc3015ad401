package paidaction

import (
	"context"
	"errors"
	"time"
)

// Relay carries payments out of the house: to receivers whose invoices ours wrap (spec 03), and to those who withdraw. It knows the
// receivers' wallets and the nodes that send; the engine decides what a payment means.
type Relay interface {
	// Wrap gets an invoice from the receiver's next wallet, and says what an invoice around it has to be like. It calls foreign
	// servers, and may take its time. ErrNoReceiver where no wallet of theirs gives one that can be wrapped.
	Wrap(ctx context.Context, r WrapRequest) (Forward, error)
	// Resolve finds out what a payee's address or bolt11 asks for. Refusals say what is wrong with it.
	Resolve(ctx context.Context, p Payee) (Payout, error)
	// Proceed looks after an outgoing payment as far as that needs no waiting, and says what is known of it. It may be called at any
	// time, any number of times.
	Proceed(ctx context.Context, action int64) (Outcome, error)
	// Wake says that there is a payment to send: whoever sends for this process need not wait until they look for one.
	Wake()
}

// ErrNoReceiver says that no wallet of the receiver gives an invoice that can be wrapped. Another method may do.
var ErrNoReceiver = errors.New("no wallet of the receiver can be paid")

// WrapRequest asks for an invoice of a receiver.
type WrapRequest struct {
	Receiver int64
	Genesis  int64 // the first attempt; 0 in itself. A wallet that failed twice for it is left out
	Node     string
	Outer    Msat   // what the payer owes
	Share    Msat   // what the receiver is to get
	Promised Msat   // what others are to get of the rest: no routing fee is paid from it
	Memo     string // at most MaxMemo bytes
	Calling  func() // is called right before a wallet is: whoever waits for the payer's turn must not wait for that
}

// Forward is a receiver's invoice (the inner one), and what ours around it (the outer one) has to be like.
type Forward struct {
	Receiver  int64
	Wallet    int64
	Bolt11    string // the inner one; the payer never sees it
	Hash      Hash   // of both
	Amount    Msat   // of the inner
	Budget    Msat   // for routing fees at most
	FinalCLTV uint32 // of the inner, in blocks
	Expires   time.Time
	// Of the outer:
	Expiry    time.Duration
	CLTVDelta uint32
}

// Payee is who a withdrawal goes to.
type Payee struct {
	To       string // a bolt11 or a lightning address
	Amount   Msat   // for an address; 0 where the bolt11 says it
	FeeLimit Msat
	Comment  string // for an address that takes one
}

// Payout is a payment that leaves, and what it may cost.
type Payout struct {
	Bolt11    string
	Hash      Hash
	Amount    Msat
	Budget    Msat // for routing fees at most
	FinalCLTV uint32
	Expires   time.Time
	Inside    int64 // the action whose own plain invoice this is: nothing leaves; 0 for all others
}

// Outcome is what is known of an outgoing payment. The zero value: nothing yet.
type Outcome struct {
	Preimage *Preimage // the receiver has it, and with it, sooner or later, all of the money
	Final    bool      // nothing of it is under way any more, and Paid and Fee are what left
	Paid     Msat      // less than the amount if parts came back though the receiver had given the preimage for another
	Fee      Msat
	Failure  *Error // given up for good: nothing of it will ever arrive
}

// Stage says how far an outgoing payment has come, as PostgreSQL names it.
type Stage string

// The stages. What failed can be put back by an operator, as long as its payer does not have the money back.
const (
	StageIncoming            Stage = "incoming"             // waits for a node
	StageInWork              Stage = "in_work"              // claimed: sent, or about to be
	StagePendingConfirmation Stage = "pending_confirmation" // the preimage is known
	StageCompleted           Stage = "completed"            // booked
	StageFailed              Stage = "failed"               // given up for good
)

// Stages are all stages, in the order of the Postgres enum.
var Stages = []Stage{StageIncoming, StageInWork, StagePendingConfirmation, StageCompleted, StageFailed}
