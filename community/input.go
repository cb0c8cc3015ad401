package community

import (
	"fmt"
	"unicode/utf8"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Codes of this package, besides those of paidaction. They too keep their meaning for ever.
const (
	CodeAlreadyVoted paidaction.Code = "ALREADY_VOTED" // this person's vote is in the poll, or waits to be paid
	CodePollClosed   paidaction.Code = "POLL_CLOSED"   // voting is over
	CodeBioExists    paidaction.Code = "BIO_EXISTS"    // each person has one bio, which can be edited
)

// States of rows that belong to a paid action. PENDING rows are visible only to the payer.
const (
	statePaid   = "PAID"
	stateFailed = "FAILED"
)

// repointed makes of what a Repoint query returned an error, unless it gave the row of the earlier attempt to this one.
func repointed(tx *paidaction.Tx, row string, n int64, err error) error {
	if err != nil {
		return fmt.Errorf("re-point the %s: %w", row, err)
	}
	if n == 0 {
		return fmt.Errorf("no %s belongs to action %d", row, tx.Previous)
	}
	return nil
}

// checkSats refuses an amount of sats that is not above zero, or is more than there can be.
func checkSats(sats int64) error {
	if sats <= 0 {
		return paidaction.Errorf(paidaction.CodeInvalidAmount, "The amount must be above zero.")
	}
	_, err := paidaction.Sats(sats)
	return err
}

// checkUpTo refuses an amount of sats that is not above zero, or is over its limit.
func checkUpTo(what string, sats int64, most paidaction.Msat) error {
	if err := checkSats(sats); err != nil {
		return err
	}
	if sats > most.Sats() {
		return paidaction.Errorf(paidaction.CodeInvalidAmount, "A %s can be at most %d sats.", what, most.Sats())
	}
	return nil
}

// checkText refuses text that is too long, too short or not valid. least and most are in characters.
func checkText(what, text string, least, most int) error {
	if !utf8.ValidString(text) {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "The %s is not valid text.", what)
	}
	for _, r := range text {
		if r == 0 {
			return paidaction.Errorf(paidaction.CodeInvalidInput, "The %s contains a character that cannot be stored.", what)
		}
	}
	switch n := utf8.RuneCountInString(text); {
	case n < least:
		return paidaction.Errorf(paidaction.CodeInvalidInput, "The %s is missing.", what)
	case n > most:
		return paidaction.Errorf(paidaction.CodeInvalidInput, "The %s has %d characters; at most %d are allowed.", what, n, most)
	}
	return nil
}
