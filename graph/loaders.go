package graph

import (
	"context"
	"fmt"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vikstrous/dataloadgen"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// loaders gather the rows that the fields of one response ask for one by one into one query for each kind. Rows that do
// not exist, or that this viewer may not see, are nil.
type loaders struct {
	users       *dataloadgen.Loader[int64, *db.Usr]
	named       *dataloadgen.Loader[string, *db.Usr]
	items       *dataloadgen.Loader[int64, *db.ItemsByIDRow]
	texts       *dataloadgen.Loader[int64, *db.TextsOfRow] // of items that were found
	territories *dataloadgen.Loader[string, *db.Territory]
	payments    *dataloadgen.Loader[int64, *paidaction.PaidAction] // the viewer's own
	comments    *dataloadgen.Loader[pageOf[int64, after], []int64]
	threads     *dataloadgen.Loader[pageOf[int64, threadPage], []*db.ItemsByIDRow]
	bios        *dataloadgen.Loader[int64, *db.BiosOfRow] // by their authors
	written     *dataloadgen.Loader[pageOf[int64, before], []int64]
	polls       *dataloadgen.Loader[int64, []*db.PollOptionsRow] // the options, by the poll's item
	edits       *dataloadgen.Loader[int64, *db.ItemEdit]
	uploads     *dataloadgen.Loader[int64, []*db.UploadsOfItemsRow]
	forwards    *dataloadgen.Loader[int64, []*db.ForwardsOfRow]
	logs        *dataloadgen.Loader[pageOf[int64, before], []*db.LogsOfWalletsRow]
	transfers   *dataloadgen.Loader[pageOf[string, before], []*db.TerritoryTransfer]
	withdrawals *dataloadgen.Loader[int64, *db.WithdrawReceiptsRow] // by their actions
}

func (r *resolver) newLoaders(viewer *int64, text *answerSize) *loaders {
	q := r.reads()
	wait := dataloadgen.WithWait(r.GatherFor)
	return &loaders{
		users: dataloadgen.NewLoader(one(q.UsersByID, func(u *db.Usr) int64 { return u.ID }), wait),
		items: dataloadgen.NewLoader(one(func(ctx context.Context, ids []int64) ([]db.ItemsByIDRow, error) {
			return q.ItemsByID(ctx, db.ItemsByIDParams{Ids: ids, Viewer: viewer})
		}, func(i *db.ItemsByIDRow) int64 { return i.ID }), wait),
		texts: dataloadgen.NewLoader(one(func(ctx context.Context, ids []int64) ([]db.TextsOfRow, error) {
			return inTurn(ctx, r.reading, func() ([]db.TextsOfRow, error) {
				if err := text.grow(0, 0); err != nil {
					return nil, err // those before have used it up
				}
				return db.New(r.Pool).TextsOf(ctx, ids)
			})
		}, func(t *db.TextsOfRow) int64 { return t.ID }), wait, dataloadgen.WithBatchCapacity(textsAtOnce)),
		territories: dataloadgen.NewLoader(one(func(ctx context.Context, names []string) ([]db.Territory, error) {
			return q.TerritoriesByName(ctx, db.TerritoriesByNameParams{Names: names, Viewer: viewer})
		}, func(t *db.Territory) string { return t.Name }), wait),
		named: dataloadgen.NewLoader(one(q.UsersByName, func(u *db.Usr) string { return u.Name }), wait),
		payments: dataloadgen.NewLoader(one(func(ctx context.Context, ids []int64) ([]paidaction.PaidAction, error) {
			if viewer == nil {
				return nil, nil
			}
			return inTurn(ctx, r.reading, func() ([]paidaction.PaidAction, error) { return r.Engine.Own(ctx, *viewer, ids) })
		}, func(pa *paidaction.PaidAction) int64 { return pa.ID }), wait),
		comments: dataloadgen.NewLoader(byPage(func(ctx context.Context, of []int64, p after, add func(int64, int64)) error {
			rows, err := q.CommentsOfEach(ctx, db.CommentsOfEachParams{Parents: of, After: p.id, Viewer: viewer, Page: p.rows})
			for _, row := range rows {
				add(row.ParentID, row.ID)
			}
			return err
		}), wait),
		threads: dataloadgen.NewLoader(byPage(func(ctx context.Context, of []int64, p threadPage, add func(int64, *db.ItemsByIDRow)) error {
			rows, err := q.Threads(ctx, db.ThreadsParams{Tops: of, After: p.id, Depth: p.depth, Viewer: viewer, Page: p.rows})
			for _, row := range rows {
				add(row.TopID, (*db.ItemsByIDRow)(&row))
			}
			return err
		}), wait),
		bios: dataloadgen.NewLoader(one(q.BiosOf, func(b *db.BiosOfRow) int64 { return *b.AuthorID }), wait),
		written: dataloadgen.NewLoader(byPage(func(ctx context.Context, of []int64, p before, add func(int64, int64)) error {
			rows, err := q.ItemsOfEach(ctx, db.ItemsOfEachParams{Authors: of, Before: p.id, Viewer: viewer, Page: p.rows})
			for _, row := range rows {
				add(row.AuthorID, row.ID)
			}
			return err
		}), wait),
		logs: dataloadgen.NewLoader(byPage(func(ctx context.Context, of []int64, p before, add func(int64, *db.LogsOfWalletsRow)) error {
			rows, err := q.LogsOfWallets(ctx, db.LogsOfWalletsParams{Wallets: of, Before: p.id, Page: p.rows})
			for _, row := range rows {
				add(row.WalletID, &row)
			}
			return err
		}), wait),
		polls: dataloadgen.NewLoader(ofEach(func(ctx context.Context, items []int64, add func(int64, *db.PollOptionsRow)) error {
			rows, err := q.PollOptions(ctx, db.PollOptionsParams{Polls: items, Viewer: viewer})
			for _, row := range rows {
				add(row.ItemID, &row)
			}
			return err
		}), wait),
		edits: dataloadgen.NewLoader(one(func(ctx context.Context, ids []int64) ([]db.ItemEdit, error) {
			return q.PendingEditsOf(ctx, db.PendingEditsOfParams{ItemIds: ids, AuthorID: viewer})
		}, func(e *db.ItemEdit) int64 { return e.ItemID }), wait),
		uploads: dataloadgen.NewLoader(ofEach(func(ctx context.Context, items []int64, add func(int64, *db.UploadsOfItemsRow)) error {
			rows, err := q.UploadsOfItems(ctx, db.UploadsOfItemsParams{ItemIds: items, Viewer: viewer})
			for _, row := range rows {
				add(row.ItemID, &row)
			}
			return err
		}), wait),
		forwards: dataloadgen.NewLoader(ofEach(func(ctx context.Context, items []int64, add func(int64, *db.ForwardsOfRow)) error {
			rows, err := q.ForwardsOf(ctx, items)
			for _, row := range rows {
				add(row.ItemID, &row)
			}
			return err
		}), wait),
		transfers: dataloadgen.NewLoader(byPage(func(ctx context.Context, of []string, p before, add func(string, *db.TerritoryTransfer)) error {
			rows, err := q.TransfersOfTerritories(ctx, db.TransfersOfTerritoriesParams{Territories: of, Before: p.id, Page: p.rows})
			for _, row := range rows {
				add(row.TerritoryTransfer.Territory, &row.TerritoryTransfer)
			}
			return err
		}), wait),
		withdrawals: dataloadgen.NewLoader(one(q.WithdrawReceipts, func(w *db.WithdrawReceiptsRow) int64 { return w.ActionID }), wait),
	}
}

// one reads a row for each key, in the order of the keys.
func one[K comparable, R any](read func(context.Context, []K) ([]R, error), key func(*R) K) func(context.Context, []K) ([]*R, []error) {
	return func(ctx context.Context, keys []K) ([]*R, []error) {
		rows, err := read(ctx, keys)
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
}

// pageOf is one page of what belongs to a key.
type pageOf[K, P comparable] struct {
	of   K
	page P
}

// The pages: so many rows after an id, or before it.
type (
	after struct {
		id   int64
		rows int32
	}
	before struct {
		id   int64
		rows int32
	}
)

// threadPage is a page of a thread, read down to a depth.
type threadPage struct {
	after
	depth int32
}

// ofEach reads what belongs to many keys with one query.
func ofEach[K comparable, R any](read func(ctx context.Context, of []K, add func(of K, row R)) error) func(context.Context, []K) ([][]R, []error) {
	return func(ctx context.Context, keys []K) ([][]R, []error) {
		found := map[K][]R{}
		if err := read(ctx, keys, func(of K, row R) { found[of] = append(found[of], row) }); err != nil {
			return nil, []error{fmt.Errorf("load lists of %T: %w", *new(R), err)}
		}
		ordered := make([][]R, len(keys))
		for i, k := range keys {
			ordered[i] = found[k]
		}
		return ordered, nil
	}
}

// byPage reads, with one query, the same page for many keys: that is what one field of a query asks for.
func byPage[K, P comparable, R any](read func(ctx context.Context, of []K, p P, add func(of K, row R)) error) func(context.Context, []pageOf[K, P]) ([][]R, []error) {
	return ofEach(func(ctx context.Context, keys []pageOf[K, P], add func(pageOf[K, P], R)) error {
		of := map[P][]K{}
		for _, k := range keys {
			of[k.page] = append(of[k.page], k.of)
		}
		for page, ids := range of {
			if err := read(ctx, ids, page, func(id K, row R) { add(pageOf[K, P]{id, page}, row) }); err != nil {
				return err
			}
		}
		return nil
	})
}

type loadersKey struct{}

func loadersOf(ctx context.Context) *loaders { return ctx.Value(loadersKey{}).(func() *loaders)() }

// loadIf loads what a key names; nil if there is no key.
func loadIf[K comparable, R any](ctx context.Context, from *dataloadgen.Loader[K, *R], key *K) (*R, error) {
	if key == nil {
		return nil, nil
	}
	return from.Load(ctx, *key)
}

// withLoaders makes the loaders only when they are needed: most mutations answer with what they wrote, and need none.
func (r *resolver) withLoaders(ctx context.Context) context.Context {
	viewer, text := sessionOf(ctx).viewer(), answerOf(ctx)
	return context.WithValue(ctx, loadersKey{}, sync.OnceValue(func() *loaders { return r.newLoaders(viewer, text) }))
}

// aroundResponse gives each response its own loaders: what a subscription sends next is read again.
func (r *resolver) aroundResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	return next(r.withLoaders(ctx))
}

// aroundRootField gives each mutation of a request its own loaders, so that it sees what the earlier ones did, and its
// own room in the answer. It refuses it if the key was revoked meanwhile.
func (r *resolver) aroundRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if graphql.GetOperationContext(ctx).Operation.Operation == ast.Mutation {
		if err := r.recheckLater(ctx); err != nil {
			graphql.AddError(graphql.WithPathContext(ctx, graphql.NewPathWithField(graphql.GetRootFieldContext(ctx).Field.Alias)), err)
			return graphql.Null
		}
		answerOf(ctx).beginMutation()
		ctx = r.withLoaders(ctx)
	}
	return next(ctx)
}
