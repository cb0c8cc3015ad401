package graph_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// leaf is an item of a thread as it is in the database, with what is below it.
type leaf struct {
	id      int64
	author  int64 // 0 is nobody
	state   string
	deleted bool
	below   []*leaf
}

func (l *leaf) seenBy(viewer int64) bool {
	return l.state == "PAID" || (viewer != 0 && l.author == viewer && !l.deleted)
}

// read is what a viewer should see of a thread, one line for each node.
func (l *leaf) read(viewer int64, depth, deepest int) (lines []string) {
	for _, c := range l.below {
		if !c.seenBy(viewer) {
			continue
		}
		below := c.read(viewer, depth+1, deepest)
		left := depth == deepest && len(c.read(viewer, depth+1, depth+1)) > 0
		id := fmt.Sprint(c.id)
		if c.deleted {
			id = "deleted"
		}
		lines = append(lines, fmt.Sprintf("%s at %d, more %t", id, depth, left))
		if depth < deepest {
			lines = append(lines, below...)
		}
	}
	return lines
}

// A thread reads from top to bottom, page after page, in the same order as a tree in memory. Each viewer gets what they
// may see.
func TestThreadReadsAsATree(t *testing.T) {
	t.Parallel()
	a := serve(t)
	people := []person{nobody, a.Person("alice", 1000, 0), a.Person("bob", 1000, 0)}
	action := number(t, a.Want(people[1], `mutation { donate(sats: 1) { id } }`, nil).text("donate", "id"))
	add := func(above []int64, author int64, state string, deleted bool) *leaf {
		l := &leaf{author: author, state: state, deleted: deleted}
		var parent *int64
		title := new("root")
		if len(above) > 0 {
			parent, title = &above[len(above)-1], nil
		}
		err := a.Pool.QueryRow(a.Ctx, `INSERT INTO item (kind, author_id, action_id, state, parent_id, ancestors, title, body, created_at, deleted_at)
			VALUES (CASE WHEN $4::bigint IS NULL THEN 'POST' ELSE 'COMMENT' END::item_kind, nullif($1, 0), $2, $3, $4, $5, $6, 'text', $7::timestamptz, CASE WHEN $8 THEN $7::timestamptz END) RETURNING id`,
			author, action, state, parent, append([]int64{}, above...), title, a.Clock.Now(), deleted).Scan(&l.id)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	rapid.Check(t, func(rt *rapid.T) {
		root := add(nil, people[1].ID, "PAID", false)
		above := map[*leaf][]int64{root: {root.id}}
		open := []*leaf{root} // what can be answered
		for range rapid.IntRange(0, 30).Draw(rt, "comments") {
			parent := rapid.SampledFrom(open).Draw(rt, "parent")
			state := rapid.SampledFrom([]string{"PAID", "PAID", "PAID", "PENDING", "FAILED"}).Draw(rt, "state")
			l := add(above[parent], rapid.SampledFrom(people).Draw(rt, "author").ID, state, rapid.IntRange(0, 7).Draw(rt, "deleted") == 0)
			parent.below = append(parent.below, l)
			if state == "PAID" {
				above[l] = append(slices.Clone(above[parent]), l.id)
				open = append(open, l)
			}
		}
		top := rapid.SampledFrom(open).Filter(func(l *leaf) bool { return !l.deleted }).Draw(rt, "top")
		depth, limit := rapid.IntRange(1, 5).Draw(rt, "depth"), rapid.IntRange(1, 12).Draw(rt, "limit")
		for _, viewer := range people {
			got := a.readThread(viewer, top.id, depth, limit)
			if want := top.read(viewer.ID, 1, depth); !slices.Equal(got, want) {
				rt.Fatalf("user %d reads\n%q, want\n%q", viewer.ID, got, want)
			}
		}
	})
}

// readThread follows the pages of a thread to the end.
func (a *api) readThread(as person, item int64, depth, limit int) (lines []string) {
	a.Helper()
	v := vars{"item": fmt.Sprint(item), "depth": depth, "limit": limit}
	for {
		r := a.Want(as, `query($item: ID!, $depth: Int!, $limit: Int!, $after: ID) {
			item(id: $item) { thread(depth: $depth, limit: $limit, after: $after) { nodes { depth more item { id } } next } } }`, v)
		nodes, _ := r.at("item", "thread", "nodes").([]any)
		if len(nodes) > limit {
			a.Fatalf("%d nodes where %d were asked for", len(nodes), limit)
		}
		for _, n := range nodes {
			node, id := n.(map[string]any), "deleted"
			if item, ok := node["item"].(map[string]any); ok {
				id = item["id"].(string)
			}
			lines = append(lines, fmt.Sprintf("%s at %v, more %v", id, node["depth"], node["more"]))
		}
		v["after"] = r.at("item", "thread", "next")
		if v["after"] == nil {
			return lines
		}
	}
}

// The id of an item that one may not see is no valid cursor, and so tells nothing.
func TestThreadAfterWhatIsHidden(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, other := a.Person("author", 100, 0), a.Person("other", 100, 0)
	post := a.PostBy(author, "post")
	const comment = `mutation($p: ID!, $m: PaymentMethod) { createComment(parent: $p, body: "text", paymentMethod: $m) { result { item { id } } } }`
	hidden := a.Want(author, comment, vars{"p": post, "m": "OPTIMISTIC"}).text("createComment", "result", "item", "id")
	seen := a.Want(other, comment, vars{"p": post}).text("createComment", "result", "item", "id")
	thread := `query($p: ID!, $after: ID) { item(id: $p) { thread(after: $after) { nodes { item { id } } } } }`
	for _, c := range []struct {
		as    person
		after any
		want  int
	}{{author, nil, 2}, {other, nil, 1}, {nobody, nil, 1}, {author, hidden, 1}, {other, hidden, 0}, {nobody, hidden, 0}, {other, seen, 0}, {other, post, 0}, {other, "99999", 0}} {
		r := a.Want(c.as, thread, vars{"p": post, "after": c.after})
		if nodes, _ := r.at("item", "thread", "nodes").([]any); len(nodes) != c.want {
			t.Errorf("user %d after %v: %s", c.as.ID, c.after, r.Raw)
		}
	}
	for _, args := range []string{"limit: 0", "limit: 501", "limit: -1", "depth: 0", "depth: 501"} {
		if r := a.Do(nobody, `query($p: ID!) { item(id: $p) { thread(`+args+`) { next } } }`, vars{"p": post}); r.code() != "INVALID_INPUT" {
			t.Errorf("%s: %s", args, r.Raw)
		}
	}
}
