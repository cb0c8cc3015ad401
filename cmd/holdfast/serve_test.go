package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/changefeed"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgbouncer"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/worker"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Not parallel: it counts goroutines.
func TestServeLeavesNothing(t *testing.T) {
	pool := pgtest.New(t)
	_, setting := newNode(t)
	before := goleak.IgnoreCurrent()
	s := serve(t, settings(pool, setting, "HOLDFAST_OPERATOR_KEY="+operatorKey))
	s.awaitReady(http.StatusOK)
	s.asOperator(operatorKey)
	if status, body := s.get("/operator/jobs/api/states"); status != http.StatusOK { // from here on River counts in the background
		t.Errorf("%d %s", status, body)
	}
	if code := s.stop(); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, s.said())
	}
	goleak.VerifyNone(t, before)
}

// A client that waits for an answer when the process is told to stop gets it, and is not told to try again what may
// have been done. Streams end at once.
func TestAStopLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, setting := newNode(t)
	env := settings(pool, setting)
	s := serve(t, env)
	s.awaitReady(http.StatusOK)
	key := keyOf(t, env, "alice")
	var made struct {
		Data struct{ Donate struct{ ID string } }
	}
	if answer := s.graphql(bearer(key), "mutation { donate(sats: 5) { id } }", nil); json.Unmarshal([]byte(answer), &made) != nil || made.Data.Donate.ID == "" {
		t.Fatal(answer)
	}
	following := bearer(key)
	following.Set("Accept", "text/event-stream")
	streamed := make(chan string, 1)
	go func() {
		streamed <- s.graphql(following, "subscription { paidActionUpdated(id: "+made.Data.Donate.ID+") { state } }", nil)
	}()

	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it may have ended
	if _, err := tx.Exec(t.Context(), "LOCK TABLE paid_action IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() { answered <- s.graphql(bearer(key), "mutation { donate(sats: 6) { state } }", nil) }()
	s.await("the request waits for the table", func() (waits bool) {
		err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'paid_action'::regclass AND mode = 'RowExclusiveLock' AND NOT granted)").Scan(&waits)
		return err == nil && waits
	})
	code := make(chan int, 1)
	go func() { code <- s.stop() }()
	select {
	case <-streamed:
	case <-time.After(shutdownTimeout / 2):
		t.Error("the stream goes on")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answer := <-answered; !strings.Contains(answer, `"state":"PENDING_HELD"`) {
		t.Errorf("the request was answered %s", answer)
	}
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
}

var operatorKey = strings.Repeat("0f", 32)

// asOperator sends this password with all further requests.
func (s *server) asOperator(password string) {
	scheme, host, _ := strings.Cut(s.url, "://")
	s.url = scheme + "://operator:" + password + "@" + host
}

// The operator's pages are there for anybody who has the key, in a process with any role. Without the setting there are
// none.
func TestOperatorsPagesNeedTheirKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, setting := newNode(t)
	s := serve(t, settings(pool, setting, "HOLDFAST_ROLES=worker,listener", "HOLDFAST_OPERATOR_KEY="+operatorKey))
	s.awaitReady(http.StatusOK)
	if status, body := s.get("/operator/"); status != http.StatusUnauthorized || strings.Contains(body, "ready") {
		t.Errorf("without the key: %d %s", status, body)
	}
	s.asOperator(operatorKey)
	status, body := s.get("/operator/")
	for _, word := range []string{"database: ready", "migrations: ready", "streams of ", ": ready", "All credits are backed.", "Sends payments"} {
		if status != http.StatusOK || !strings.Contains(body, word) {
			t.Errorf("%d, without %q: %s", status, word, body)
		}
	}
	if strings.Contains(s.said(), operatorKey) {
		t.Error("the log tells the key")
	}
	s.stop()
	s = serve(t, settings(pool))
	s.asOperator(operatorKey)
	if status, _ := s.get("/operator/"); status != http.StatusNotFound {
		t.Errorf("there are pages without a key: %d", status)
	}
}

// Lightning addresses exist only where the service knows the name under which people reach it, and only under that
// name.
func TestAddressesAreServedUnderThePublicURL(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := serve(t, settings(pool, "HOLDFAST_PUBLIC_URL=https://example.org"))
	if code, _, said := command(t, settings(pool), "users", "add", "alice"); code != exitOK {
		t.Fatal(said)
	}
	if status, body := s.get("/.well-known/lnurlp/alice"); status != http.StatusOK || !strings.Contains(body, `"callback":"https://example.org/lnurlp/alice"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.get("/.well-known/lnurlp/nobody"); status != http.StatusNotFound || !strings.Contains(body, `"status":"ERROR"`) {
		t.Errorf("%d %s", status, body)
	}
	s.stop()
	s = serve(t, settings(pool))
	if status, body := s.get("/.well-known/lnurlp/alice"); status != http.StatusNotFound || strings.Contains(body, "alice") {
		t.Errorf("without a public URL: %d %s", status, body)
	}
}

func TestALackingMacaroonStopsTheService(t *testing.T) {
	t.Parallel()
	node, setting := newNode(t)
	node.Deny("/invoicesrpc.Invoices/SettleInvoice")
	code, _, said := command(t, settings(pgtest.New(t), setting), "serve")
	if code != exitFailed || !strings.Contains(said, "uri:/invoicesrpc.Invoices/SettleInvoice") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}

func TestTheWrongNetworkStopsTheService(t *testing.T) {
	t.Parallel()
	_, setting := newNode(t)
	code, _, said := command(t, settings(pgtest.New(t), setting, "HOLDFAST_NETWORK=signet"), "serve")
	if code != exitFailed || !strings.Contains(said, "regtest") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}

// A node whose chain backend is away at the start keeps the service from nothing else, and serves once the backend is
// back.
func TestASickNodeStopsNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	node, setting := newNode(t)
	node.SetChainless(true)
	s := serve(t, settings(pool, setting))
	said := func(what string) func() bool { return func() bool { return strings.Contains(s.said(), what) } }
	s.await("what is the matter", said("Loading block index"))
	if status, body := s.get("/healthz"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	node.SetChainless(false)
	s.await("the node to be found fit", said("the Lightning node can serve"))
	s.awaitReady(http.StatusOK)
	if code := s.stop(); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, s.said())
	}
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for name, c := range map[string]struct {
		env  []string
		code int
		word string
	}{
		"no secret": {settings(pool, "HOLDFAST_DEVELOPMENT=0"), exitUsage, "HOLDFAST_SECRET"},
		"forgetful": {settings(pool, "HOLDFAST_DEVELOPMENT=0", "HOLDFAST_SECRET="+strings.Repeat("ab", 32),
			"HOLDFAST_DATABASE_URL="+pool.Config().ConnString()+"&synchronous_commit=off"), exitFailed, "synchronous_commit"},
		"waits for no replica": {settings(pool, "HOLDFAST_DEVELOPMENT=0", "HOLDFAST_SECRET="+strings.Repeat("ab", 32),
			"HOLDFAST_DATABASE_URL="+pool.Config().ConnString()+"&synchronous_commit=local"), exitFailed, "replica"},
		"no database":      {settings(pool, "HOLDFAST_DATABASE_URL=postgres://u:topsecret@127.0.0.1:1/none"), exitFailed, "127.0.0.1:1"},
		"address in use":   {settings(pool, "HOLDFAST_LISTEN=192.0.2.1:80"), exitFailed, "HOLDFAST_LISTEN"},
		"no node's file":   {settings(pool, "HOLDFAST_NODES=a=localhost:1;tls=/none;macaroon=/none"), exitFailed, "/none"},
		"no such setting":  {append(settings(pool), "HOLDFAST_ROLES=king"), exitUsage, "roles"},
		"nothing listened": {settings(pool, "HOLDFAST_ROLES=listener"), exitUsage, "HOLDFAST_NODES"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, said := command(t, c.env, "serve")
			if code != c.code || !strings.Contains(said, c.word) || strings.Contains(said, "topsecret") {
				t.Errorf("exit code %d:\n%s", code, said)
			}
		})
	}
}

// An index that was made by other rules of sorting may let the same key in twice.
func TestADatabaseThatIsSortedOtherwiseIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	refresh := pgtest.Outdate(t, pool)
	env := settings(pool, "HOLDFAST_ROLES=api")
	if code, _, said := command(t, env, "migrate", "up"); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	if code, _, said := command(t, env, "serve"); code != exitFailed || !strings.Contains(said, "REINDEX DATABASE") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	refresh()
	s := serve(t, env)
	s.awaitReady(http.StatusOK)
	if code := s.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// A process with another secret could not read the receivers' wallets, but would accept payments: it is refused.
func TestAnotherSecretIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	with := func(secret string) []string { return settings(pool, "HOLDFAST_SECRET="+strings.Repeat(secret, 32)) }
	for range 2 { // the first process, and one of the same secret
		s := serve(t, with("ab"))
		s.awaitReady(http.StatusOK)
		if code := s.stop(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	if code, _, said := command(t, with("cd"), "serve"); code != exitUsage || !strings.Contains(said, "HOLDFAST_SECRET is not the one") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}

// engine is the engine of another process on the same database.
func engine(t *testing.T, pool *pgxpool.Pool, nodes paidaction.Nodes, now func() time.Time) *paidaction.Engine {
	t.Helper()
	jobs, err := worker.NewQueue(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	e, err := paidaction.New(paidaction.Config{Pool: pool, Nodes: nodes, Jobs: jobs, Actions: community.Actions(community.DefaultSettings()),
		Secret: make([]byte, 32), Now: now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var donation = paidaction.Request{Kind: community.KindDonate, Args: community.DonateArgs{Sats: 5}, Caller: paidaction.Caller{Client: "192.0.2.1"}}

// The roles are in two processes, the payer is at a third. The payment held at the node ends as PAID, and the third
// process hears of it.
func TestRolesInProcessesOfTheirOwn(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	node, setting := newNode(t)
	serve(t, settings(pool, setting, "HOLDFAST_ROLES=worker")).awaitReady(http.StatusOK)
	listening := serve(t, settings(pool, setting, "HOLDFAST_ROLES=listener"))
	listening.awaitReady(http.StatusOK)
	if status, _ := listening.get("/"); status != http.StatusNotFound {
		t.Errorf("a process without the role answers the API with %d", status)
	}
	donate(t, pool, node)
}

// A pooler in transaction mode keeps neither prepared statements nor settings, and accepts no parameters. The address
// says so for prepared statements, and the worker goes on without its own setting for River's tables.
func TestWorkBehindAPooler(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	node, setting := newNode(t)
	env := append(settings(pool, setting, "HOLDFAST_ROLES=worker,listener"),
		"HOLDFAST_DATABASE_URL="+pgbouncer.Start(t, pool)+"&default_query_exec_mode=cache_describe")
	s := serve(t, env)
	s.awaitReady(http.StatusOK)
	donate(t, pool, node)
	if !strings.Contains(s.said(), "ALTER ROLE") {
		t.Errorf("it is not behind the pooler:\n%s", s.said())
	}
	if strings.Contains(s.said(), `"loop":"jobs"`) {
		t.Errorf("the jobs do not run:\n%s", s.said())
	}
}

// donate has somebody else donate by a held invoice, and waits until the service has taken the money.
func donate(t *testing.T, pool *pgxpool.Pool, node *lndtest.Server) {
	t.Helper()
	nodes, err := lightning.NewNodes(node.Client())
	if err != nil {
		t.Fatal(err)
	}
	feed := changefeed.New(pool, slog.New(slog.DiscardHandler))
	go func() { _ = feed.Run(t.Context()) }()
	<-feed.Listening()
	e := engine(t, pool, nodes, time.Now)
	pa, err := e.Pay(t.Context(), donation)
	if err != nil {
		t.Fatal(err)
	}
	changes := feed.Subscribe(t.Context(), pa.ID)
	if err := node.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	late := time.After(30 * time.Second)
	for pa.State != paidaction.Paid {
		select {
		case <-changes:
		case <-late:
			t.Fatalf("the action is %s", pa.State)
		}
		if pa, err = e.Get(t.Context(), paidaction.Caller{Secret: pa.Secret}, pa.ID); err != nil {
			t.Fatal(err)
		}
	}
}
