package community

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Feed is a list of the posts that everybody sees, best first. The ranking lags by up to a second: it includes only
// counters that are folded already.
type Feed struct {
	Sort      FeedSort
	Within    FeedWindow // only SortTop has one other than WithinAll
	Territory string     // empty: all
}

// FeedSort says which posts come first.
type FeedSort string

// The sorts.
const (
	SortNew FeedSort = "NEW"
	SortHot FeedSort = "HOT" // weighted votes and boosts, against age
	SortTop FeedSort = "TOP" // weighted votes, of posts written within the window
)

// FeedWindow is how old posts may be. It moves with the time, even from one page to the next.
type FeedWindow string

// The windows, in days of 24 hours.
const (
	WithinDay   FeedWindow = "DAY"
	WithinWeek  FeedWindow = "WEEK"
	WithinMonth FeedWindow = "MONTH"
	WithinYear  FeedWindow = "YEAR"
	WithinAll   FeedWindow = "ALL"
)

var windowDays = map[FeedWindow]int{WithinDay: 1, WithinWeek: 7, WithinMonth: 30, WithinYear: 365}

// place is where a post stands in a feed: by its score; among equal scores the newer post comes first.
type place struct{ ID, Score int64 }

// firstPlace comes before every post.
var firstPlace = place{math.MaxInt64, math.MaxInt64}

// Page returns the ids of the next posts, at most most of them, and the cursor for the next page, which is empty at the
// end. An empty cursor means the first page. Posts written meanwhile neither repeat what was read nor hide what was
// not; a post whose score changes meanwhile can be skipped or repeated.
//
// Errors: INVALID_INPUT for a cursor of another feed, and for a window with a sort that has none.
func (f Feed) Page(ctx context.Context, q *db.Queries, now time.Time, cursor string, most int) (ids []int64, next string, err error) {
	if f.Within != WithinAll && f.Sort != SortTop {
		return nil, "", paidaction.Errorf(paidaction.CodeInvalidInput, "Only the sort TOP takes a window of time.")
	}
	after := firstPlace
	if cursor != "" {
		if after, err = f.parse(cursor); err != nil {
			return nil, "", err
		}
	}
	found, err := f.read(ctx, q, now, after, int32(most)+1)
	if err != nil {
		return nil, "", fmt.Errorf("read the feed %s: %w", f.Sort, err)
	}
	if len(found) > most {
		found = found[:most]
		next = f.cursor(found[most-1])
	}
	for _, p := range found {
		ids = append(ids, p.ID)
	}
	return ids, next, nil
}

// read reads places from the feed's own index.
func (f Feed) read(ctx context.Context, q *db.Queries, now time.Time, after place, page int32) ([]place, error) {
	switch everywhere := f.Territory == ""; {
	case f.Sort == SortNew && everywhere:
		return places(q.NewPosts(ctx, db.NewPostsParams{Before: after.ID, Page: page}))
	case f.Sort == SortNew:
		return places(q.NewPostsIn(ctx, db.NewPostsInParams{Territory: f.Territory, Before: after.ID, Page: page}))
	case f.Sort == SortHot && everywhere:
		return places(q.HotPosts(ctx, db.HotPostsParams{Score: after.Score, Before: after.ID, Page: page}))
	case f.Sort == SortHot:
		return places(q.HotPostsIn(ctx, db.HotPostsInParams{Territory: f.Territory, Score: after.Score, Before: after.ID, Page: page}))
	case f.Within == WithinAll && everywhere:
		return places(q.TopPosts(ctx, db.TopPostsParams{Score: after.Score, Before: after.ID, Page: page}))
	case f.Within == WithinAll:
		return places(q.TopPostsIn(ctx, db.TopPostsInParams{Territory: f.Territory, Score: after.Score, Before: after.ID, Page: page}))
	}
	since := now.Add(-time.Duration(windowDays[f.Within]) * 24 * time.Hour)
	if f.Territory == "" {
		return places(q.TopPostsSince(ctx, db.TopPostsSinceParams{FirstDay: dayOf(since), LastDay: dayOf(now), Since: since,
			Score: after.Score, Before: after.ID, Page: page}))
	}
	return places(q.TopPostsSinceIn(ctx, db.TopPostsSinceInParams{Territory: f.Territory, FirstDay: dayOf(since), LastDay: dayOf(now), Since: since,
		Score: after.Score, Before: after.ID, Page: page}))
}

// dayOf is the number of the day, as in the column item.day.
func dayOf(t time.Time) int32 { return int32(t.Unix() / (24 * 60 * 60)) }

func places[R ~struct{ ID, Score int64 }](rows []R, err error) ([]place, error) {
	found := make([]place, len(rows))
	for i, row := range rows {
		found[i] = place(row)
	}
	return found, err
}

func (f Feed) cursor(p place) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d %d", f.Sort, p.Score, p.ID))
}

func (f Feed) parse(cursor string) (p place, err error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		_, err = fmt.Sscanf(string(text), string(f.Sort)+" %d %d", &p.Score, &p.ID)
	}
	if err != nil || f.cursor(p) != cursor {
		return p, paidaction.Errorf(paidaction.CodeInvalidInput, "This cursor is not from this list. Start without one.")
	}
	return p, nil
}
