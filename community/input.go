package community

import (
	"unicode/utf8"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

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
