package paidaction

import (
	"errors"
	"fmt"
	"log/slog"
)

// Code names a kind of refusal. Codes are part of the public contract: clients switch on them, so a code keeps its
// meaning for ever.
type Code string

// The codes a caller of the engine can meet.
const (
	CodeInvalidInput         Code = "INVALID_INPUT"         // an argument breaks a rule; the message says which
	CodeInvalidAmount        Code = "INVALID_AMOUNT"        // zero, negative, fractional or too large
	CodeNotFound             Code = "NOT_FOUND"             // no such thing, or the caller may not know of it
	CodeForbidden            Code = "FORBIDDEN"             // the caller is not the one who may do this
	CodeUnauthenticated      Code = "UNAUTHENTICATED"       // the caller must say who they are
	CodeDuplicate            Code = "DUPLICATE"             // the same thing was done a moment ago
	CodeMethodUnavailable    Code = "METHOD_UNAVAILABLE"    // this payer has no way to pay this action
	CodeInsufficientFunds    Code = "INSUFFICIENT_FUNDS"    // the balance that was to pay does not cover the cost
	CodeIdempotencyConflict  Code = "IDEMPOTENCY_CONFLICT"  // the key was used before, with other arguments
	CodePriceChanged         Code = "PRICE_CHANGED"         // the price has changed meanwhile, or is above the payer's MaxCost
	CodeNotRetryable         Code = "NOT_RETRYABLE"         // not FAILED, too old, or tried too often
	CodeAlreadyRetried       Code = "ALREADY_RETRIED"       // a successor attempt exists
	CodeNotCancelable        Code = "NOT_CANCELABLE"        // the payment has gone too far to be cancelled
	CodeTooManyPending       Code = "TOO_MANY_PENDING"      // too many unpaid invoices of this payer, or withdrawals under way
	CodeLightningUnavailable Code = "LIGHTNING_UNAVAILABLE" // no node can take the payment now
	CodeReceiverBusy         Code = "RECEIVER_BUSY"         // too much is under way to the receiver
	CodeAboveRequest         Code = "ABOVE_REQUEST"         // a wallet's invoice is for more than it was asked for
	CodePaymentFailed        Code = "PAYMENT_FAILED"        // the receiver could not be paid; the money went back
	CodeTryAgain             Code = "TRY_AGAIN"             // nothing was changed; the same call may succeed
	CodeUnknownOutcome       Code = "UNKNOWN_OUTCOME"       // it may or may not have been done: look, or repeat with the same key
	CodeExpired              Code = "EXPIRED"               // not paid in time, or held for too long; the money went back
	CodeCanceled             Code = "CANCELED"              // the payer gave up
	CodeInternal             Code = "INTERNAL"              // a fault of ours
)

// Error is a refusal that the person who caused it may see: a stable code and one plain sentence that says what to do.
// It never carries SQL, addresses or stack traces; what an operator needs is in the wrapped cause.
type Error struct {
	Code      Code
	Message   string
	Cost      Msat   // the present cost, with PRICE_CHANGED; else 0
	Successor *int64 // the newer attempt, with ALREADY_RETRIED; else nil
	cause     error
}

// Errorf makes a refusal. The message is shown to people: write a whole sentence.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// costing adds the present cost.
func (e *Error) costing(cost Msat) *Error {
	e.Cost = cost
	return e
}

// naming adds the newer attempt.
func (e *Error) naming(successor *int64) *Error {
	e.Successor = successor
	return e
}

// Because attaches the cause that operators see in the log and users do not.
func (e *Error) Because(cause error) *Error {
	because := *e
	because.cause = cause
	return &because
}

// Level is how loud a log says the cause. What a client has sent is no warning: anybody could fill the log with it.
func (e *Error) Level() slog.Level {
	if e.Code == CodeInvalidInput {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

func (e *Error) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is compare codes: errors.Is(err, Refused(CodeNotFound)).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Message == "" && t.Code == e.Code
}

// forCaller turns err into what the caller may have. A passing failure becomes a refusal that says so; refusals and
// faults stay as they are.
func forCaller(err error) error {
	switch {
	case errors.Is(err, errUnknownCommit):
		return Errorf(CodeUnknownOutcome, "It is not known whether this went through. Look at your actions before you try again, or repeat it with the same idempotency key.").Because(err)
	case IsPassing(err):
		return Errorf(CodeTryAgain, "A part of this service is busy or restarting. Try again in a moment.").Because(err)
	}
	return err
}

// Refused is a target for errors.Is that matches every refusal with this code.
func Refused(code Code) error { return &Error{Code: code} }

// AsRefusal finds the refusal in err, if there is one. An error without a refusal is a fault of ours or of a part we
// depend on: its text is for operators only.
func AsRefusal(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}
