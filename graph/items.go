package graph

import (
	"context"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

func (queries) Item(ctx context.Context, id int64) (*db.ItemsByIDRow, error) {
	return loadersOf(ctx).items.Load(ctx, id)
}

func (q queries) Items(ctx context.Context, sort community.FeedSort, within community.FeedWindow, territory *string, first int, after *string) (*schema.FeedPage, error) {
	if err := q.Limits.checkList(first); err != nil {
		return nil, err
	}
	feed := community.Feed{Sort: sort, Within: within, Territory: orElse(territory, "")}
	if feed.Territory != "" && !namePattern.MatchString(feed.Territory) {
		return &schema.FeedPage{}, nil
	}
	ids, next, err := feed.Page(ctx, q.reads(), q.Now(), orElse(after, ""), first)
	if err != nil {
		return nil, err
	}
	page := &schema.FeedPage{}
	if next != "" {
		page.Next = &next
	}
	page.Nodes, err = loadItems(ctx, ids)
	return page, err
}

// itemPage loads the items of a page. ids has one more than first if another page follows.
func itemPage(ctx context.Context, ids []int64, first int) (*schema.ItemPage, error) {
	page := &schema.ItemPage{}
	ids, page.Next = cut(ids, first, func(id int64) int64 { return id })
	var err error
	page.Nodes, err = loadItems(ctx, ids)
	return page, err
}

// loadItems leaves out items deleted since their ids were read.
func loadItems(ctx context.Context, ids []int64) ([]*db.ItemsByIDRow, error) {
	nodes, err := loadersOf(ctx).items.LoadAll(ctx, ids)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(nodes, func(n *db.ItemsByIDRow) bool { return n == nil }), nil
}

func (items) Body(ctx context.Context, i *db.ItemsByIDRow) (string, error) {
	text, err := loadersOf(ctx).texts.Load(ctx, i.ID)
	if err != nil {
		return "", err
	}
	return text.Body, nil
}

func (items) Author(ctx context.Context, i *db.ItemsByIDRow) (*db.Usr, error) {
	return loadIf(ctx, loadersOf(ctx).users, i.AuthorID)
}

func (items) Territory(ctx context.Context, i *db.ItemsByIDRow) (*db.Territory, error) {
	return loadIf(ctx, loadersOf(ctx).territories, i.Territory)
}

func (items) Parent(ctx context.Context, i *db.ItemsByIDRow) (*db.ItemsByIDRow, error) {
	return loadIf(ctx, loadersOf(ctx).items, i.ParentID)
}

func (items) PendingEdit(ctx context.Context, i *db.ItemsByIDRow) (*db.ItemEdit, error) {
	return loadersOf(ctx).edits.Load(ctx, i.ID)
}

func (items) Uploads(ctx context.Context, i *db.ItemsByIDRow) ([]*db.UploadsOfItemsRow, error) {
	return loadersOf(ctx).uploads.Load(ctx, i.ID)
}

func (items) Forwards(ctx context.Context, i *db.ItemsByIDRow) ([]*db.ForwardsOfRow, error) {
	return loadersOf(ctx).forwards.Load(ctx, i.ID)
}

func (itemForwards) User(ctx context.Context, f *db.ForwardsOfRow) (*db.Usr, error) {
	return loadersOf(ctx).users.Load(ctx, f.UserID)
}

func (items) CommentCount(_ context.Context, i *db.ItemsByIDRow) (int, error) {
	return int(i.Comments), nil
}

func (r items) Comments(ctx context.Context, i *db.ItemsByIDRow, first int, cursor *int64) (*schema.ItemPage, error) {
	if err := r.Limits.checkList(first); err != nil {
		return nil, err
	}
	ids, err := loadersOf(ctx).comments.Load(ctx, pageOf[int64, after]{i.ID, after{orElse(cursor, 0), int32(first) + 1}})
	if err != nil {
		return nil, err
	}
	return itemPage(ctx, ids, first)
}

func (r items) Thread(ctx context.Context, i *db.ItemsByIDRow, limit, depth int, cursor *int64) (*schema.ThreadPage, error) {
	if err := r.Limits.checkThread(limit, depth); err != nil {
		return nil, err
	}
	nodes, err := loadersOf(ctx).threads.Load(ctx, pageOf[int64, threadPage]{i.ID, threadPage{after{orElse(cursor, 0), int32(limit) + 1}, int32(depth)}})
	if err != nil {
		return nil, err
	}
	page := &schema.ThreadPage{}
	// Where the texts are long, a page has fewer of them: whoever writes long ones must not make the thread unreadable.
	page.Nodes, page.Next = cut(nodes, fits(nodes, limit, r.Limits.Text/2), func(n *db.ItemsByIDRow) int64 { return n.ID })
	return page, nil
}

// fits is how many of the first nodes have no more text than that, one at least.
func fits(nodes []*db.ItemsByIDRow, limit int, text int64) int {
	for i, n := range nodes[:min(limit, len(nodes))] {
		if text -= n.Bytes; text < 0 && i > 0 {
			return i
		}
	}
	return limit
}

// Item is the node itself: its row is that of the item, with its place in the thread.
func (threadNodes) Item(_ context.Context, n *db.ItemsByIDRow) (*db.ItemsByIDRow, error) {
	if n.Deleted {
		return nil, nil
	}
	return n, nil
}

func (r items) Payment(ctx context.Context, i *db.ItemsByIDRow) (schema.PaidAction, error) {
	return r.showOwn(ctx, i.ActionID)
}
