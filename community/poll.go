package community

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// PollArgs are what a poll has beyond a post.
type PollArgs struct {
	Options  []string   `json:"options"`
	Price    int64      `json:"price"`              // of a vote, in whole sats
	ClosesAt *time.Time `json:"closesAt,omitempty"` // nobody can vote from then on; nil: never closes
}

const (
	minOptions = 2
	maxOptions = 10
	maxOption  = 140
)

// checkPoll refuses a poll without a choice, and votes that are free or too dear.
func (ic ItemCreate) checkPoll(p PollArgs) error {
	if len(p.Options) < minOptions || len(p.Options) > maxOptions {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "A poll has %d to %d options.", minOptions, maxOptions)
	}
	options := p.texts()
	for i, text := range options {
		if err := checkText("option", text, 1, maxOption); err != nil {
			return err
		}
		if slices.Contains(options[:i], text) {
			return paidaction.Errorf(paidaction.CodeInvalidInput, "Two options of the poll are the same.")
		}
	}
	return checkUpTo("vote", p.Price, ic.Settings.MaxVote)
}

// texts are the options as they are stored.
func (p PollArgs) texts() []string {
	texts := make([]string, len(p.Options))
	for i, text := range p.Options {
		texts[i] = strings.TrimSpace(text)
	}
	return texts
}

// insertOptions stores the options of a poll in order.
func insertOptions(ctx context.Context, tx *paidaction.Tx, item int64, p PollArgs) error {
	if err := tx.DB.InsertPollOptions(ctx, db.InsertPollOptionsParams{ItemID: item, Texts: p.texts()}); err != nil {
		return fmt.Errorf("insert the poll's options: %w", err)
	}
	return nil
}
