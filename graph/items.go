package graph

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

func (queries) Item(ctx context.Context, id int64) (*db.ItemsByIDRow, error) {
	return loadersOf(ctx).items.Load(ctx, id)
}

func (q queries) Items(ctx context.Context, first int, after *int64) (*schema.ItemPage, error) {
	if err := q.Limits.checkList(first); err != nil {
		return nil, err
	}
	ids, err := db.New(q.Pool).NewPosts(ctx, db.NewPostsParams{Before: orElse(after, math.MaxInt64), Page: int32(first) + 1})
	if err != nil {
		return nil, fmt.Errorf("read the new posts: %w", err)
	}
	return itemPage(ctx, ids, first)
}

// itemPage loads the items of a page, whose ids are given with one too many if another page follows.
func itemPage(ctx context.Context, ids []int64, first int) (*schema.ItemPage, error) {
	page := &schema.ItemPage{}
	ids, page.Next = cut(ids, first, func(id int64) int64 { return id })
	nodes, err := loadersOf(ctx).items.LoadAll(ctx, ids)
	if err != nil {
		return nil, err
	}
	// One that was deleted since its id was read is left out.
	page.Nodes = slices.DeleteFunc(nodes, func(n *db.ItemsByIDRow) bool { return n == nil })
	return page, nil
}

func (items) Author(ctx context.Context, i *db.ItemsByIDRow) (*db.Usr, error) {
	if i.AuthorID == nil {
		return nil, nil
	}
	return loadersOf(ctx).users.Load(ctx, *i.AuthorID)
}

func (items) Territory(ctx context.Context, i *db.ItemsByIDRow) (*db.Territory, error) {
	if i.Territory == nil {
		return nil, nil
	}
	return loadersOf(ctx).territories.Load(ctx, *i.Territory)
}

func (items) Parent(ctx context.Context, i *db.ItemsByIDRow) (*db.ItemsByIDRow, error) {
	if i.ParentID == nil {
		return nil, nil
	}
	return loadersOf(ctx).items.Load(ctx, *i.ParentID)
}

func (items) CommentCount(_ context.Context, i *db.ItemsByIDRow) (int, error) {
	return int(i.Comments), nil
}

func (r items) Comments(ctx context.Context, i *db.ItemsByIDRow, first int, after *int64) (*schema.ItemPage, error) {
	if err := r.Limits.checkList(first); err != nil {
		return nil, err
	}
	ids, err := loadersOf(ctx).comments.Load(ctx, commentsOf{parent: i.ID, commentPage: commentPage{after: orElse(after, 0), rows: first + 1}})
	if err != nil {
		return nil, err
	}
	return itemPage(ctx, ids, first)
}

func (itemCreateResults) Item(ctx context.Context, r *community.ItemCreateResult) (*db.ItemsByIDRow, error) {
	return loadersOf(ctx).items.Load(ctx, r.Item)
}

func (pollVoteResults) Item(ctx context.Context, r *community.PollVoteResult) (*db.ItemsByIDRow, error) {
	return loadersOf(ctx).items.Load(ctx, r.Item)
}

func (zapResults) Item(ctx context.Context, r *community.ZapResult) (*db.ItemsByIDRow, error) {
	return loadersOf(ctx).items.Load(ctx, r.Item)
}
