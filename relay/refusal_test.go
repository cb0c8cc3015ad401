package relay_test

import (
	"regexp"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// What a payer is told is stored when the payment to the receiver is given up. The money goes back after that, and
// later if their node is away.
func TestNobodyIsToldThatMoneyIsBackBeforeItIs(t *testing.T) {
	t.Parallel()
	told := []*paidaction.Error{relay.Unsent}
	for _, reason := range []string{"", "CROWDED", string(paidaction.ReasonIncorrectDetails), string(wrap.NotHeld), string(wrap.BlocksShort)} {
		told = append(told, relay.RefusalOf(reason))
	}
	for _, refusal := range told {
		if regexp.MustCompile(`is back|went back`).MatchString(refusal.Message) {
			t.Errorf("a payer is told: %s", refusal.Message)
		}
	}
}
