package graph

import (
	"context"
	"fmt"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vikstrous/dataloadgen"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// loaders gather the rows that the fields of one response ask for, each on its own, into one query a kind. What does not
// exist, or is not for this viewer, is nil.
type loaders struct {
	users       *dataloadgen.Loader[int64, *db.Usr]
	items       *dataloadgen.Loader[int64, *db.ItemsByIDRow]
	territories *dataloadgen.Loader[string, *db.Territory]
	comments    *dataloadgen.Loader[commentsOf, []int64]
	polls       *dataloadgen.Loader[int64, []*db.PollOptionsRow] // the options by the poll's item
	edits       *dataloadgen.Loader[int64, *db.ItemEdit]
	uploads     *dataloadgen.Loader[int64, []*db.UploadsOfItemsRow]
	logs        *dataloadgen.Loader[logOf, []*db.LogsOfWalletsRow]
	transfers   *dataloadgen.Loader[transfersOf, []*db.TerritoryTransfer]
}

// commentsOf names one page of an item's comments.
type commentsOf struct {
	parent int64
	commentPage
}
type commentPage struct {
	after int64
	rows  int
}

// logOf names one page of a wallet's log.
type logOf struct {
	wallet int64
	logPage
}
type logPage struct {
	before int64
	rows   int
}

// transfersOf names one page of a territory's transfers.
type transfersOf struct {
	territory string
	transferPage
}
type transferPage struct {
	before int64
	rows   int
}

// gatherFor is how long a loader waits for others to ask too.
const gatherFor = 2 * time.Millisecond

func (r *resolver) newLoaders(viewer *int64) *loaders {
	q := db.New(r.Pool)
	wait := dataloadgen.WithWait(gatherFor)
	return &loaders{
		users: dataloadgen.NewLoader(func(ctx context.Context, ids []int64) ([]*db.Usr, []error) {
			rows, err := q.UsersByID(ctx, ids)
			return inOrder(ids, rows, func(u *db.Usr) int64 { return u.ID }, err)
		}, wait),
		items: dataloadgen.NewLoader(func(ctx context.Context, ids []int64) ([]*db.ItemsByIDRow, []error) {
			rows, err := q.ItemsByID(ctx, db.ItemsByIDParams{Ids: ids, Viewer: viewer})
			return inOrder(ids, rows, func(i *db.ItemsByIDRow) int64 { return i.ID }, err)
		}, wait),
		territories: dataloadgen.NewLoader(func(ctx context.Context, names []string) ([]*db.Territory, []error) {
			rows, err := q.TerritoriesByName(ctx, db.TerritoriesByNameParams{Names: names, Viewer: viewer})
			return inOrder(names, rows, func(t *db.Territory) string { return t.Name }, err)
		}, wait),
		comments: dataloadgen.NewLoader(func(ctx context.Context, keys []commentsOf) ([][]int64, []error) {
			return loadComments(ctx, q, viewer, keys)
		}, wait),
		polls: dataloadgen.NewLoader(func(ctx context.Context, ids []int64) ([][]*db.PollOptionsRow, []error) {
			return loadPolls(ctx, q, viewer, ids)
		}, wait),
		edits: dataloadgen.NewLoader(func(ctx context.Context, ids []int64) ([]*db.ItemEdit, []error) {
			rows, err := q.PendingEditsOf(ctx, db.PendingEditsOfParams{ItemIds: ids, AuthorID: viewer})
			return inOrder(ids, rows, func(e *db.ItemEdit) int64 { return e.ItemID }, err)
		}, wait),
		uploads: dataloadgen.NewLoader(func(ctx context.Context, ids []int64) ([][]*db.UploadsOfItemsRow, []error) {
			return loadUploads(ctx, q, viewer, ids)
		}, wait),
		logs: dataloadgen.NewLoader(func(ctx context.Context, keys []logOf) ([][]*db.LogsOfWalletsRow, []error) {
			return loadLogs(ctx, q, keys)
		}, wait),
		transfers: dataloadgen.NewLoader(func(ctx context.Context, keys []transfersOf) ([][]*db.TerritoryTransfer, []error) {
			return loadTransfers(ctx, q, keys)
		}, wait),
	}
}

// inOrder puts rows into the order of their keys.
func inOrder[K comparable, R any](keys []K, rows []R, key func(*R) K, err error) ([]*R, []error) {
	if err != nil {
		return nil, []error{fmt.Errorf("load %T: %w", rows, err)}
	}
	byKey := make(map[K]*R, len(rows))
	for i := range rows {
		byKey[key(&rows[i])] = &rows[i]
	}
	ordered := make([]*R, len(keys))
	for i, k := range keys {
		ordered[i] = byKey[k]
	}
	return ordered, nil
}

// loadComments reads pages of comments: one query for all items of which the same page is asked for, as one field of a
// query does.
func loadComments(ctx context.Context, q *db.Queries, viewer *int64, keys []commentsOf) ([][]int64, []error) {
	parents := map[commentPage][]int64{}
	for _, k := range keys {
		parents[k.commentPage] = append(parents[k.commentPage], k.parent)
	}
	found := map[commentsOf][]int64{}
	for page, of := range parents {
		rows, err := q.CommentsOfEach(ctx, db.CommentsOfEachParams{Parents: of, After: page.after, Viewer: viewer, Page: int32(page.rows)})
		if err != nil {
			return nil, []error{fmt.Errorf("load comments: %w", err)}
		}
		for _, row := range rows {
			k := commentsOf{row.ParentID, page}
			found[k] = append(found[k], row.ID)
		}
	}
	ordered := make([][]int64, len(keys))
	for i, k := range keys {
		ordered[i] = found[k]
	}
	return ordered, nil
}

// loadUploads reads what each of these items carries, in one query.
func loadUploads(ctx context.Context, q *db.Queries, viewer *int64, ids []int64) ([][]*db.UploadsOfItemsRow, []error) {
	rows, err := q.UploadsOfItems(ctx, db.UploadsOfItemsParams{ItemIds: ids, Viewer: viewer})
	if err != nil {
		return nil, []error{fmt.Errorf("load uploads: %w", err)}
	}
	found := map[int64][]*db.UploadsOfItemsRow{}
	for i := range rows {
		found[rows[i].ItemID] = append(found[rows[i].ItemID], &rows[i])
	}
	ordered := make([][]*db.UploadsOfItemsRow, len(ids))
	for i, id := range ids {
		ordered[i] = found[id]
	}
	return ordered, nil
}

type loadersKey struct{}

func loadersOf(ctx context.Context) *loaders { return ctx.Value(loadersKey{}).(*loaders) }

func (r *resolver) withLoaders(ctx context.Context) context.Context {
	return context.WithValue(ctx, loadersKey{}, r.newLoaders(sessionOf(ctx).user))
}

// aroundResponse gives each response loaders of its own: what a subscription sends next is read anew.
func (r *resolver) aroundResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	return next(r.withLoaders(ctx))
}

// aroundRootField gives each mutation of a request loaders of its own: it sees what those before it did.
func (r *resolver) aroundRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if graphql.GetOperationContext(ctx).Operation.Operation == ast.Mutation {
		ctx = r.withLoaders(ctx)
	}
	return next(ctx)
}
