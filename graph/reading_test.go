package graph_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// dozen gives the API and its engine twelve database connections.
func dozen(t testing.TB) func(*graph.Config) {
	return func(c *graph.Config) {
		config := c.Pool.Config()
		config.MaxConns = 12
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		c.Pool, c.Engine.Pool, c.Webhooks.Pool = pool, pool, pool
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
}

// waiting is how many of the database's transactions wait for locks.
func (a *api) waiting() int64 {
	return a.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// However much is asked for at once, reading has half of the database connections, and one asker a third of these. So
// whoever asks for too much waits for their own answers, and neither payments nor others wait with them.
func TestReadingLeavesConnectionsToOthers(t *testing.T) {
	t.Parallel()
	a := serve(t, dozen(t))
	payer := a.Person("payer", 100, 0)
	var query strings.Builder
	for i := range 20 {
		fmt.Fprintf(&query, " a%d: items(sort: HOT) { nodes { id } }", i)
	}
	slow, err := a.Pool.Begin(a.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(a.Ctx, `LOCK TABLE item_count`); err != nil {
		t.Fatal(err)
	}
	const askers = 4
	answers := make(chan answer, 2*askers)
	ask := func(n int) {
		for range 2 {
			go func() { answers <- a.from(fmt.Sprintf("203.0.113.%d", n), "{"+query.String()+"}") }()
		}
	}

	ask(0)
	a.AwaitBlocked(2)
	for range 10 { // other people, and other reading
		a.Want(payer, `{ territories { nodes { name } } me { unseenNotifications history { nodes { at } } } paidActions { nodes { id } } itemPriceMsat }`, nil)
	}
	if n := a.waiting(); n != 2 {
		t.Errorf("one asker reads with %d connections, want 2 of 12", n)
	}
	for n := 1; n < askers; n++ {
		ask(n)
	}
	a.AwaitBlocked(6)
	for range 10 {
		a.Want(payer, `mutation { donate(sats: 1) { state } }`, nil)
	}
	if n := a.waiting(); n != 6 {
		t.Errorf("all together read with %d connections, want half of 12", n)
	}

	if err := slow.Commit(a.Ctx); err != nil {
		t.Fatal(err)
	}
	for range cap(answers) {
		if r := <-answers; len(r.Errors) > 0 || len(r.Data) != 20 {
			t.Errorf("in the end: %s", r.Raw)
		}
	}
	a.Want(payer, `{ items(sort: HOT) { nodes { id } } }`, nil)
}

// Of files, each piece that is sent is read like anything else.
func TestSendingFilesLeavesConnectionsToOthers(t *testing.T) {
	t.Parallel()
	a := serve(t, dozen(t))
	reader, payer := a.Person("reader", 0, 0), a.Person("payer", 100, 0)
	at := a.Upload(reader, png).URL
	slow, err := a.Pool.Begin(a.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(a.Ctx, `LOCK TABLE upload_data`); err != nil {
		t.Fatal(err)
	}
	files := make(chan file, 20)
	for range cap(files) {
		go func() { files <- a.File("GET", at, reader, nil) }()
	}
	a.AwaitBlocked(2)
	for range 10 {
		a.Want(payer, `mutation { donate(sats: 1) { state } }`, nil)
	}
	if n := a.waiting(); n != 2 {
		t.Errorf("files are sent to one user with %d connections, want 2 of 12", n)
	}
	if err := slow.Commit(a.Ctx); err != nil {
		t.Fatal(err)
	}
	for range cap(files) {
		if f := <-files; f.Status != http.StatusOK || f.Body != png {
			t.Errorf("in the end: %d, %d bytes", f.Status, len(f.Body))
		}
	}
}

// What a user changes without paying waits for what they are changing already, with a connection for each. However much
// that is, it has a quarter of the connections, and one user a third of these.
func TestChangesThatCostNothingLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	a := serve(t, dozen(t))
	payer := a.Person("payer", 100, 0)
	var changers []person
	for i := range 4 {
		changers = append(changers, a.Person(fmt.Sprint("changer", i), 0, 0))
	}
	slow, err := a.Pool.Begin(a.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(a.Ctx, `SELECT FROM usr WHERE id <> $1 FOR UPDATE`, payer.ID); err != nil {
		t.Fatal(err)
	}
	changes := []string{`createInvite(giftCredits: 1, limit: 1) { code }`, `walletsReorder(ids: []) { id }`, `setPreferences { hideInvoiceDescriptions }`,
		`webhookCreate(url: "https://example.org") { secret }`}
	answers := make(chan answer, len(changers)*len(changes))
	change := func(as person) {
		for _, c := range changes {
			go func() { answers <- a.Do(as, "mutation { "+c+" }", nil) }()
		}
	}

	change(changers[0])
	a.AwaitBlocked(1)
	for range 10 { // other people
		a.Want(payer, `mutation { setPreferences { hideInvoiceDescriptions } }`, nil)
	}
	if n := a.waiting(); n != 1 {
		t.Errorf("one user changes with %d connections, want 1 of 12", n)
	}
	for _, as := range changers[1:] {
		change(as)
	}
	a.AwaitBlocked(3)
	for range 10 {
		a.Want(payer, `mutation { donate(sats: 1) { state } }`, nil)
	}
	if n := a.waiting(); n != 3 {
		t.Errorf("all together change with %d connections, want a quarter of 12", n)
	}

	if err := slow.Commit(a.Ctx); err != nil {
		t.Fatal(err)
	}
	for range cap(answers) {
		if r := <-answers; len(r.Errors) > 0 {
			t.Errorf("in the end: %s", r.Raw)
		}
	}
}

// Storing a file costs nothing either, and neither does removing a webhook, which can take long.
func TestFilesAndWebhooksLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	a := serve(t, dozen(t))
	payer := a.Person("payer", 100, 0)
	var changers []person
	hooks := map[person]string{}
	for i := range 4 {
		as := a.Person(fmt.Sprint("changer", i), 0, 0)
		changers = append(changers, as)
		hooks[as] = a.Want(as, `mutation { webhookCreate(url: "https://example.org") { webhook { id } } }`, nil).text("webhookCreate", "webhook", "id")
	}
	for name, c := range map[string]struct {
		lock string
		do   func(as person)
	}{
		"files": {`SELECT FROM usr WHERE name <> 'payer' FOR UPDATE`, func(as person) {
			if f := a.File("POST", "/uploads", as, strings.NewReader(png), "Content-Type", "image/png"); f.Status != http.StatusCreated {
				t.Errorf("in the end: %d %s", f.Status, f.Body)
			}
		}},
		"webhooks": {`SELECT FROM webhook FOR UPDATE`, func(as person) {
			r := a.Do(as, `mutation($id: ID!) { webhookRemove(id: $id) { id } }`, vars{"id": hooks[as]})
			if code := r.code(); code != "" && code != "NOT_FOUND" { // the second time
				t.Errorf("in the end: %s", r.Raw)
			}
		}},
	} {
		slow, err := a.Pool.Begin(a.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := slow.Exec(a.Ctx, c.lock); err != nil {
			t.Fatal(err)
		}
		var under sync.WaitGroup
		for _, as := range changers {
			under.Go(func() { c.do(as) })
			under.Go(func() { c.do(as) })
		}
		a.AwaitBlocked(3)
		for range 10 {
			a.Want(payer, `mutation { donate(sats: 1) { state } }`, nil)
		}
		if n := a.waiting(); n != 3 {
			t.Errorf("%s: all together change with %d connections, want a quarter of 12", name, n)
		}
		if err := slow.Commit(a.Ctx); err != nil {
			t.Fatal(err)
		}
		under.Wait()
	}
}

// Whoever gives up waiting gives their place in the line back.
func TestReadingIsGivenUp(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) {
		config := c.Pool.Config()
		config.MaxConns = 2 // one to read with
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		c.Pool = pool
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		c.Limits.Time = 2 * time.Second
	})
	slow, err := a.Pool.Begin(a.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(a.Ctx, `LOCK TABLE item_count`); err != nil {
		t.Fatal(err)
	}
	answers := make(chan answer, 4)
	for n := range cap(answers) { // of two askers: one waits in the common line, the others for their own
		go func() {
			answers <- a.from(fmt.Sprintf("203.0.113.%d", n%2), "{ items(sort: HOT) { nodes { id } } more: items(sort: HOT) { nodes { id } } }")
		}()
	}
	for range cap(answers) {
		if r := <-answers; r.code() != "TIME_LIMIT_EXCEEDED" {
			t.Errorf("of who waits: %s", r.Raw)
		}
	}
	if err := slow.Commit(a.Ctx); err != nil {
		t.Fatal(err)
	}
	a.Want(nobody, `{ items(sort: HOT) { nodes { id } } more: items(sort: HOT) { nodes { id } } }`, nil)
}
