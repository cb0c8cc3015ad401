package community_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const day = 24 * time.Hour

// every feed there is, of all territories and of one.
func feeds(territory string) (all []community.Feed) {
	for _, in := range []string{"", territory} {
		all = append(all, community.Feed{Sort: community.SortNew, Within: community.WithinAll, Territory: in},
			community.Feed{Sort: community.SortHot, Within: community.WithinAll, Territory: in})
		for _, within := range []community.FeedWindow{community.WithinDay, community.WithinWeek, community.WithinMonth, community.WithinYear, community.WithinAll} {
			all = append(all, community.Feed{Sort: community.SortTop, Within: within, Territory: in})
		}
	}
	return all
}

// read reads a feed to its end, page by page, and calls between after each page.
func read(w *enginetest.World, f community.Feed, page int, between func()) (all []int64) {
	w.Helper()
	for cursor := ""; ; between() {
		ids, next, err := f.Page(w.Ctx, db.New(w.Pool), w.Clock.Now(), cursor, page)
		if err != nil {
			w.Fatal(err)
		}
		if all = append(all, ids...); next == "" {
			return all
		}
		if len(ids) != page {
			w.Fatalf("a page of %d that is not the last, of %d", len(ids), page)
		}
		cursor = next
	}
}

func wantFeed(w *enginetest.World, f community.Feed, want ...int64) {
	w.Helper()
	if got := read(w, f, 2, func() {}); !slices.Equal(got, want) {
		w.Errorf("%s within %s: %v, want %v", f.Sort, f.Within, got, want)
	}
}

var (
	hot = community.Feed{Sort: community.SortHot, Within: community.WithinAll}
	top = community.Feed{Sort: community.SortTop, Within: community.WithinAll}
)

func TestHotIsVotesAndBoostAgainstAge(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, fan := w.User("author", 1_000_000*sat, 0), w.User("fan", 1_000_000*sat, 0)
	first := w.Post(author, "first")
	w.Clock.Advance(time.Hour)
	second := w.Post(author, "second")
	wantFeed(w, hot, second, first) // nobody has voted: the newer
	w.Pay(fan, community.KindZap, community.ZapArgs{Item: first, Sats: 1000}, "")
	fold(w)
	wantFeed(w, hot, first, second)
	boost(w, author, second, 9000) // like nine votes, against three
	fold(w)
	wantFeed(w, hot, second, first)
	wantFeed(w, top, first, second) // boosts are for the hot feed alone
	w.Clock.Advance(time.Hour)
	third := w.Post(author, "third")
	downZap(w, fan, third, 1000)
	fold(w)
	wantFeed(w, hot, second, first, third)
	w.Clock.Advance(30 * day)
	expire(w, 10)
	fold(w)
	wantFeed(w, hot, first, second, third)
	// Ten times the votes are as good as 12.5 hours.
	for vote, want := range map[int64][]int64{
		8_900_000: {first, second}, 9_100_000: {second, first},
	} {
		mustExec(w, `UPDATE item_count SET vote_micros = 0 WHERE item_id = $1`, first)
		mustExec(w, `UPDATE item_count SET vote_micros = $2 WHERE item_id = $1`, second, vote)
		mustExec(w, `UPDATE item SET created_at = (SELECT created_at FROM item WHERE id = $2) - interval '45000 seconds' WHERE id = $1`, second, first)
		wantFeed(w, hot, append(want, third)...)
	}
}

func TestOnlyWhatEverybodySeesIsListed(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, poor := w.User("author", 1_000_000*sat, 0), w.User("poor", 0, 0)
	territory(w, "bitcoin", author)
	make := func(user int64, title string) int64 {
		return w.Item(create(w, user, community.ItemCreateArgs{Title: title, Territory: "bitcoin"}))
	}
	post, deleted := make(author, "a post"), make(author, "deleted")
	mustExec(w, `UPDATE item SET deleted_at = $2 WHERE id = $1`, deleted, w.Clock.Now())
	create(w, author, community.ItemCreateArgs{Body: "a comment", Parent: post})
	make(poor, "pending")
	failed := create(w, poor, community.ItemCreateArgs{Title: "failed", Territory: "bitcoin"})
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(poor), failed.ID); err != nil {
		t.Fatal(err)
	}
	elsewhere := w.Post(author, "elsewhere")
	for _, f := range feeds("bitcoin") {
		if f.Territory == "" {
			wantFeed(w, f, elsewhere, post)
		} else {
			wantFeed(w, f, post)
		}
	}
	wantFeed(w, community.Feed{Sort: community.SortNew, Within: community.WithinAll, Territory: "nowhere"})
}

// fill writes posts of the last days by an SQL statement, with votes and boosts that repeat now and then.
func fill(w *enginetest.World, author int64, territory string, from, count, days int) {
	w.Helper()
	last := w.Count(`SELECT max(id) FROM item`)
	mustExec(w, `
		INSERT INTO item (author_id, action_id, state, territory, ancestors, title, body, created_at)
		SELECT $1, (SELECT max(id) FROM paid_action), 'PAID', nullif($6, ''), '{}', 'post ' || i, '',
			$2::timestamptz - interval '1 day' * $5 * (i * 7919 % 20011) / 20011
		FROM generate_series($3::bigint, $4::bigint) AS i`, author, w.Clock.Now(), from, from+count-1, days, territory)
	mustExec(w, `
		UPDATE item_count SET vote_micros = (i * 104729 % 1009 - 200) * 100000::bigint, boost_msat = (i % 17 / 16) * 1000000::bigint
		FROM (SELECT item_id AS id, item_id - $1 - 1 + $2 AS i FROM item_count WHERE item_id > $1) AS new WHERE item_id = new.id`, last, int64(from))
}

// Every feed is what sorting all posts would give, and of posts that come while somebody reads, none repeats what was read or hides
// what was not.
func TestFeedsAreSortedAndStayRightWhileOthersWrite(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 1000*sat, 0)
	territory(w, "bitcoin", author)
	w.Clock.Advance(-500 * day)
	w.Post(author, "the oldest")
	w.Clock.Advance(500 * day)
	written := 0
	write := func(territory string, posts int) {
		fill(w, author, territory, written, posts, 400)
		written += posts
	}
	write("", 200)
	write("bitcoin", 100)
	type post struct {
		id, hot, votes int64
		at             time.Time
		territory      string
	}
	all := func() (all []post) {
		rows, err := w.Pool.Query(w.Ctx, `SELECT item_id, hot, vote_micros, created_at, coalesce(territory, '') FROM item_count`)
		if err != nil {
			t.Fatal(err)
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p post, err error) {
			return p, row.Scan(&p.id, &p.hot, &p.votes, &p.at, &p.territory)
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	oldest := map[community.FeedWindow]time.Duration{community.WithinDay: day, community.WithinWeek: 7 * day, community.WithinMonth: 30 * day,
		community.WithinYear: 365 * day, community.WithinAll: 10_000 * day}
	sorted := func(f community.Feed, all []post) (ids []int64) {
		slices.SortFunc(all, func(a, b post) int {
			switch f.Sort {
			case community.SortHot:
				return -cmp.Or(cmp.Compare(a.hot, b.hot), cmp.Compare(a.id, b.id))
			case community.SortTop:
				return -cmp.Or(cmp.Compare(a.votes, b.votes), cmp.Compare(a.id, b.id))
			}
			return -cmp.Compare(a.id, b.id)
		})
		for _, p := range all {
			if (f.Territory == "" || f.Territory == p.territory) && p.at.After(w.Clock.Now().Add(-oldest[f.Within])) {
				ids = append(ids, p.id)
			}
		}
		return ids
	}
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom(feeds("bitcoin")).Draw(rt, "feed")
		page := rapid.IntRange(10, 100).Draw(rt, "page")
		w.Clock.Advance(time.Duration(rapid.IntRange(0, 3600).Draw(rt, "seconds")) * time.Second)
		before := sorted(f, all())
		if got := read(w, f, page, func() {}); !slices.Equal(got, before) {
			rt.Fatalf("%+v in pages of %d: %v, want %v", f, page, got, before)
		}
		others := rapid.Bool().Draw(rt, "others write")
		got := read(w, f, page, func() {
			if others && written < 600 {
				write("", 2)
				write("bitcoin", 1)
			}
		})
		old := map[int64]bool{}
		for _, id := range before {
			old[id] = true
		}
		if got = slices.DeleteFunc(got, func(id int64) bool { return !old[id] }); !slices.Equal(got, before) {
			rt.Fatalf("%+v in pages of %d, while others write: %v, want %v", f, page, got, before)
		}
	})
}

func TestCursorsOfOtherListsAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 10_000*sat, 0)
	for i := range 3 {
		w.Post(author, fmt.Sprint("post ", i))
	}
	page := func(f community.Feed, cursor string) (string, error) {
		_, next, err := f.Page(w.Ctx, db.New(w.Pool), w.Clock.Now(), cursor, 1)
		return next, err
	}
	ofTop, err := page(top, "")
	if err != nil || ofTop == "" {
		t.Fatal(ofTop, err)
	}
	if _, err := page(top, ofTop); err != nil {
		t.Error(err)
	}
	for _, cursor := range []string{ofTop, "x", "0", "%", ofTop + "A", "SE9UIDEgMSAx", "SE9UIDEgOTk5OTk5OTk5OTk5OTk5OTk5OTk"} {
		_, err := page(hot, cursor)
		w.WantRefusal(err, paidaction.CodeInvalidInput)
	}
	_, err = page(community.Feed{Sort: community.SortHot, Within: community.WithinDay}, "")
	w.WantRefusal(err, paidaction.CodeInvalidInput)
}

// explained has every query explained by the database as it runs it, and remembers the plans.
type explained struct {
	pgx.Tx
	plans []plan
}

type plan struct {
	Type    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []plan
}

func (e *explained) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	var raw []byte
	if err := e.Tx.QueryRow(ctx, "EXPLAIN (ANALYZE, FORMAT JSON) "+sql, args...).Scan(&raw); err != nil {
		return nil, err
	}
	var tops []struct{ Plan plan }
	if err := json.Unmarshal(raw, &tops); err != nil {
		return nil, err
	}
	e.plans = append(e.plans, tops[0].Plan)
	return e.Tx.Query(ctx, sql, args...)
}

// read is how many rows of items a plan has read, and whether all there are.
func (p plan) read() (rows int, sequential bool) {
	if p.Table == "item" {
		rows, sequential = int((p.Rows+p.Removed)*p.Loops), p.Type == "Seq Scan"
	}
	for _, below := range p.Plans {
		r, s := below.read()
		rows, sequential = rows+r, sequential || s
	}
	return rows, sequential
}

// A page of a feed reads its own rows and those of its days, not all of the table, anywhere in the list; also once PostgreSQL has
// made a plan for whatever arguments come.
func TestFeedsReadTheirPageAlone(t *testing.T) {
	t.Parallel()
	const posts, page, pages = 20_000, 10, 8
	windows := map[community.FeedWindow]int{community.WithinDay: 2, community.WithinWeek: 8, community.WithinMonth: 31, community.WithinYear: 366}
	for _, days := range []int{400, 4} {
		t.Run(fmt.Sprint(days, " days"), func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			author := w.User("author", 10*sat, 0)
			territory(w, "bitcoin", author)
			w.Post(author, "the first")
			fill(w, author, "bitcoin", 0, posts/3, days) // before all others
			fill(w, author, "", posts/3, posts-posts/3, days)
			mustExec(w, `ANALYZE item`)
			for _, f := range feeds("bitcoin") {
				// Of the day in which the window begins some posts are too old.
				bound := page + 1
				if inWindow := windows[f.Within]; inWindow > 0 {
					bound = inWindow + min(inWindow, page+1)*(page+1) + 2*60
				}
				err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
					e, cursor, fetched := &explained{Tx: tx}, "", -fetchedIn(w, tx)
					for range pages {
						_, next, err := f.Page(w.Ctx, db.New(e), w.Clock.Now(), cursor, page)
						if err != nil {
							return err
						}
						cursor = next
					}
					for i, p := range e.plans {
						if rows, sequential := p.read(); sequential || rows > bound {
							t.Errorf("%+v: page %d reads %d rows of %d (sequentially: %t), want %d at most", f, i+1, rows, posts, sequential, bound)
						}
					}
					if fetched += fetchedIn(w, tx); fetched > 2*pages*(bound+page) { // the explanations run the queries too
						t.Errorf("%+v: %d rows fetched for %d pages, twice", f, fetched, pages)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// fetchedIn is how many rows of items a connection has fetched so far, by index or not.
func fetchedIn(w *enginetest.World, tx pgx.Tx) (rows int) {
	w.Helper()
	err := tx.QueryRow(w.Ctx, `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'item'`).Scan(&rows)
	if err != nil {
		w.Fatal(err)
	}
	return rows
}
