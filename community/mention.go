package community

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const maxMentions = 10 // of an item

var mentionPattern = regexp.MustCompile(`(?:^|[^a-z0-9_@])@([a-z0-9_]{1,32})\b`)

// mention stores the known people among the first few @names of a text, up to a limit per item.
func mention(ctx context.Context, tx *paidaction.Tx, item int64, text string) error {
	var names []string
	for _, m := range mentionPattern.FindAllStringSubmatch(text, -1) {
		if len(names) < maxMentions && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	if len(names) == 0 {
		return nil
	}
	users, err := tx.DB.UsersByName(ctx, names)
	if err != nil {
		return fmt.Errorf("read the mentioned: %w", err)
	}
	known, err := tx.DB.Mentions(ctx, item)
	if err != nil {
		return fmt.Errorf("read the mentions: %w", err)
	}
	var ids []int64
	for _, u := range users {
		// The limit is per item: changing a text again and again must not notify ever more people.
		if !slices.Contains(known, u.ID) && len(known)+len(ids) < maxMentions {
			ids = append(ids, u.ID)
		}
	}
	if err := tx.DB.InsertMentions(ctx, db.InsertMentionsParams{ItemID: item, Users: ids}); err != nil {
		return fmt.Errorf("insert the mentions: %w", err)
	}
	return nil
}

// tellMentioned tells those who are mentioned at an item. Who was told of it before is not told again.
func tellMentioned(ctx context.Context, tx *paidaction.Tx, item int64) error {
	mentioned, err := tx.DB.Mentions(ctx, item)
	if err != nil {
		return fmt.Errorf("read the mentions: %w", err)
	}
	return notify(ctx, tx, "MENTION", &item, mentioned)
}
