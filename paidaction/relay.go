package paidaction

import (
	"context"
	"errors"
	"time"
)

// Relay sends payments out: to receivers whose invoices ours wrap (spec 03), and for withdrawals. It knows the
// receivers' wallets and the nodes that send; the engine decides what a payment means.
type Relay interface {
	// Wrap gets an invoice from the receiver's next wallet, and says what the invoice around it must look like. It
	// calls foreign servers and may take long. ErrNoReceiver where none of the receiver's wallets gives one that can be
	// wrapped.
	Wrap(ctx context.Context, r WrapRequest) (Forward, error)
	// Resolve finds out what a payee's address or bolt11 asks for. Refusals say what is wrong with it.
	Resolve(ctx context.Context, p Payee) (Payout, error)
	// Proceed moves an outgoing payment on as far as it can without waiting, and returns what is known of it. It may be
	// called at any time, any number of times. ErrLost is wrapped where the node that was given the payment has lost its
	// data (Learn and GiveUp rest on that), ErrPaymentNotFound where the node that has made it does not know it
	// (WriteOff). After any other error the node may yet tell.
	Proceed(ctx context.Context, action int64) (Outcome, error)
	// Forgotten reports whether a node has the payment of an action although our row says PENDING_HELD: the database
	// went back, by a restore or a fail-over, to a moment before the node was given it. It asks no node where nothing was
	// forgotten. An error says that not every node has answered that could have it.
	Forgotten(ctx context.Context, action int64, h Hash) (bool, error)
	// GiveUp gives up for good what a node was given that has lost its data, and tells the payer the reason. An error
	// says why it may still arrive, or may be known to a node.
	GiveUp(ctx context.Context, action int64, reason string) error
	// Wake tells this process's sender that there is a payment to send, so that it need not wait for its next look.
	Wake()
	// Paid is told, after the commit, of a payment that counts as made from now on, with the outcome that said so.
	Paid(o Outcome)
}

// ErrNoReceiver says that no wallet of the receiver gives an invoice that can be wrapped. Another method may work.
var ErrNoReceiver = errors.New("no wallet of the receiver can be paid")

// ErrLost says that the node that was given an outgoing payment has forgotten it, or that another one answers under its
// name, so that nothing follows from what it says.
var ErrLost = errors.New("nothing follows from what the node says")

// WrapRequest asks for a receiver's invoice.
type WrapRequest struct {
	Receiver int64
	Genesis  int64 // the first attempt; 0 in itself. A wallet that failed twice for it is left out
	Node     string
	Outer    Msat   // what the payer owes
	Share    Msat   // what the receiver is to get
	Promised Msat   // what others get out of the rest: no routing fee is paid from it
	Memo     string // at most MaxMemo bytes
	Calling  func() // called right before a wallet is: nobody in line behind the payer must wait for that
}

// Forward is a receiver's invoice (the inner one), and what ours around it (the outer one) must look like.
type Forward struct {
	Receiver  int64
	Wallet    int64
	Bolt11    string // the inner one; the payer never sees it
	Hash      Hash   // of both
	Amount    Msat   // of the inner
	Budget    Msat   // at most this for routing fees
	FinalCLTV uint32 // of the inner, in blocks
	Expires   time.Time
	// Of the outer invoice:
	Until     time.Time // when it expires; the inner outlives it
	CLTVDelta uint32
}

// MaxWait is how long a withdrawal waits for a node that can send it, unless the settings say otherwise.
const MaxWait = time.Hour

// MinOuterLife is the least time that the payer of a wrapped invoice has (spec 03 §3.2).
const MinOuterLife = 60 * time.Second

// Payee is whom a withdrawal pays.
type Payee struct {
	To       string // a bolt11 or a lightning address
	Amount   Msat   // for an address; 0 where the bolt11 says it
	FeeLimit Msat
	Comment  string // for an address that takes one; any other is refused
}

// Payout is a payment that leaves, and what it may cost.
type Payout struct {
	Bolt11    string
	Hash      Hash
	Amount    Msat
	Budget    Msat // at most this for routing fees
	FinalCLTV uint32
	Expires   time.Time
	Inside    int64 // the action whose plain invoice this is, so that nothing leaves; 0 otherwise
}

// Outcome is what is known of an outgoing payment. The zero value: nothing yet.
type Outcome struct {
	Preimage *Preimage // the receiver has revealed it, and so will get all of the money sooner or later
	Final    bool      // no part of it is under way any more, and Paid and Fee are what left
	Paid     Msat      // below the amount if parts came back although the receiver gave the preimage for another part
	Fee      Msat
	Failure  *Error // given up for good: no part of it will ever arrive

	// For Paid: which node has made it, and since when it was to be made. Empty where nothing was sent.
	Node  string
	Since time.Time
}

// Stage says how far an outgoing payment has come, named as in PostgreSQL.
type Stage string

// The stages. An operator can put a failed payment back into the pipeline until its payer has the money back.
const (
	StageIncoming            Stage = "incoming"             // waits for a node
	StageInWork              Stage = "in_work"              // claimed: sent, or about to be
	StagePendingConfirmation Stage = "pending_confirmation" // the preimage is known
	StageCompleted           Stage = "completed"            // booked
	StageFailed              Stage = "failed"               // given up for good
)

// Stages are all stages, in the order of the Postgres enum.
var Stages = []Stage{StageIncoming, StageInWork, StagePendingConfirmation, StageCompleted, StageFailed}
