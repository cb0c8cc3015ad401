package community

import (
	"unicode/utf8"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// States of rows that belong to a paid action: PENDING is seen by the payer alone.
const (
	statePaid   = "PAID"
	stateFailed = "FAILED"
)

// checkSats refuses an amount of sats that is not above zero, or is more than there can be.
func checkSats(sats int64) error {
	if sats <= 0 {
		return paidaction.Errorf(paidaction.CodeInvalidAmount, "The amount must be above zero.")
	}
	_, err := paidaction.Sats(sats)
	return err
}

// checkText refuses what is too long, or is no text at all. most is in characters.
func checkText(what, text string, least, most int) error {
	if !utf8.ValidString(text) {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "The %s is not valid text.", what)
	}
	for _, r := range text {
		if r == 0 {
			return paidaction.Errorf(paidaction.CodeInvalidInput, "The %s holds a character that cannot be stored.", what)
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
