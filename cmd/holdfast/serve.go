package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/changefeed"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lnurl"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/operator"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
	"github.com/a-seed-a7aed72f/holdfast/web"
	"github.com/a-seed-a7aed72f/holdfast/webhook"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

type serveCommand struct{}

// gcPercent is by how much the heap grows before a collection, unless GOGC says otherwise. The heap is a few tens of
// megabytes. Collecting each time it doubles, Go's default, took a tenth of the processor time under load.
const gcPercent = 400

func (serveCommand) Run(ctx context.Context, e *environment) error {
	if err := checked(e); err != nil {
		return err
	}
	closeTraces, err := e.openTraces(ctx)
	if err != nil {
		return err
	}
	defer closeTraces()
	pool, err := openPool(ctx, e)
	if err != nil {
		return err
	}
	defer dbconn.Close(pool)
	if err := sameDatabase(ctx, e); err != nil {
		return err
	}
	if !e.config.Development {
		if err := durable(ctx, pool); err != nil {
			return err
		}
		warnVolatile(ctx, e, pool)
	}
	if err := sorted(ctx, pool); err != nil {
		return databaseError(e, err)
	}
	s, err := newService(ctx, e, pool)
	if err != nil {
		return err
	}
	defer s.close()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return s.run(ctx)
}

// service is everything that one process runs.
type service struct {
	*environment
	pool      *pgxpool.Pool
	registry  *prometheus.Registry
	clients   []*lightning.Client
	nodes     *lightning.Nodes
	feed      *changefeed.Feed
	locker    *lock.Locker // nil if nothing waits for a turn and nothing is sent
	places    *pool.Pool   // nodes that send; nil unless this process sends
	relay     *relay.Relay // nil if there is no node
	engine    *paidaction.Engine
	wallets   *wallet.Wallets
	webhooks  *webhook.Webhooks
	api       *graph.API     // nil unless the process has the role
	client    http.Handler   // the pages for people; nil exactly if api is
	addresses http.Handler   // nil unless the process has the role api and its public address is set
	worker    *worker.Worker // nil unless the process has the role
	listeners []*worker.Listener
	readiness *readiness
	lookout   *operator.Lookout
	operator  http.Handler // the operators' pages; nil if they have no key
}

// newService assembles the parts. It starts nothing, and asks no node for anything.
func newService(ctx context.Context, e *environment, pool *pgxpool.Pool) (_ *service, err error) {
	s := &service{environment: e, pool: pool, registry: prometheus.NewRegistry(), feed: changefeed.New(pool, e.log)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.registry.MustRegister(e.failures, e.doubts(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := sameSecret(ctx, db.New(pool), e.config.Key()); err != nil {
		return nil, err
	}
	if err := s.dial(); err != nil {
		return nil, err
	}
	jobs, err := worker.NewQueue(e.log)
	if err != nil {
		return nil, err
	}
	if err := s.openLocker(ctx); err != nil {
		return nil, err
	}
	if s.wallets, err = s.newWallets(); err != nil {
		return nil, err
	}
	if s.webhooks, err = newWebhooks(e, pool, jobs, s.clockConfirmed); err != nil {
		return nil, err
	}
	metrics := worker.NewMetrics(s.registry)
	if err := s.openRelay(metrics.Conflict); err != nil {
		return nil, err
	}
	hooks := metrics.Hooks()
	if s.relay != nil {
		hooks.Moved = func(step paidaction.Step) { metrics.Moved(step); s.relay.Metrics.Moved(step) }
	}
	if s.engine, err = s.newEngine(jobs, hooks); err != nil {
		return nil, err
	}
	if e.config.Has("api") {
		if err := s.openAPI(); err != nil {
			return nil, err
		}
	}
	if err := s.openWorker(jobs, metrics); err != nil {
		return nil, err
	}
	s.readiness = s.newReadiness()
	s.lookout = operator.NewLookout(operator.Config{Pool: pool, Queues: worker.Queues(), Locks: e.config.Lock.Strategy == "postgres", MaxWait: e.config.Relay.MaxWait})
	s.registry.MustRegister(s.readiness, operator.NewCollector(s.lookout, e.log))
	if len(e.config.OperatorKey) > 0 {
		if s.operator, err = s.operatorPages(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *service) newEngine(jobs *worker.Queue, hooks paidaction.Hooks) (*paidaction.Engine, error) {
	c := s.config
	hooks.Changed = s.feed.Changed
	return paidaction.New(paidaction.Config{
		Pool: s.pool, Nodes: s.nodes, Relay: s.outgoing(), Jobs: jobs, Turns: s.turns(), Actions: community.Actions(c.Prices.Community()),
		TellFailed: community.TellFailed, ConfirmClock: s.clockConfirmed, MayBegin: s.mayBegin, Secret: c.Key(), Log: s.log, Hooks: hooks,
		Settings: paidaction.Settings{
			InvoiceExpiry: c.InvoiceExpiry, CLTVDelta: c.CLTVDelta, HoldExpiryDelta: c.HoldExpiryDelta,
			SafetyBlocks: c.SafetyBlocks, MaxPending: c.MaxPending, MaxWalletPending: c.Relay.MaxPending,
			MaxForwards: c.Relay.MaxForwards, MaxForwarded: paidaction.Msat(c.Relay.MaxForwarded), MaxWithdrawals: c.Relay.MaxWithdrawals,
		},
	})
}

// openWorker makes what moves actions without users: jobs, and the nodes' events, depending on the roles of this
// process.
func (s *service) openWorker(jobs *worker.Queue, metrics *worker.Metrics) (err error) {
	parts := worker.Config{Pool: s.pool, Engine: s.engine, Jobs: jobs, Folds: folds, Chores: s.chores(), Deliver: s.webhooks.Deliver, Log: s.log, Metrics: metrics, Traces: s.traces}
	if s.config.Has("worker") {
		if s.worker, err = worker.New(parts); err != nil {
			return err
		}
	} else {
		parts.Settings.Direct = -1 // a process that takes a step wakes its own relay
	}
	if s.config.Has("listener") {
		for _, client := range s.clients {
			listener, err := worker.NewListener(parts, client.Name(), client)
			if err != nil {
				return err
			}
			s.listeners = append(s.listeners, listener)
		}
	}
	return nil
}

// openAPI makes what is served to users.
func (s *service) openAPI() error {
	c := s.config
	site, err := s.site()
	if err != nil {
		return err
	}
	api, err := graph.NewHandler(graph.Config{Engine: s.engine, Pool: s.pool, Updates: s.feed, Wallets: s.wallets, Webhooks: s.webhooks, Rates: c.Rate.Rates(), Development: c.Development,
		Public: c.PublicURL.URL(), NewUsers: c.SignIn.WalletSignUp, KeepsKeys: c.SignIn.SignedInFor, Site: site,
		Origins: c.Origins, TrustedProxies: c.TrustedProxies, Prices: c.Prices.Community(), Log: s.log})
	if err != nil {
		return err
	}
	s.api, s.client = api, web.NewHandler(c.DemoWallet.URL(), c.PublicURL.URL() != nil)
	if public := c.PublicURL.URL(); public != nil {
		s.addresses, err = lnurl.NewHandler(lnurl.Config{Engine: s.engine, Pool: s.pool, Askers: api, Public: public,
			Most: c.Prices.Community().MaxZap, Secret: c.Key(), Log: s.log})
	}
	return err
}

// How many appended rows one transaction takes to choose the accounts to fold, and how many it folds into items. A
// payer whose account is being folded waits for the whole page: up to 40 ms with a thousand rows. Nobody pays from an
// item.
const (
	balancePage = 250
	itemPage    = 2000
)

var folds = []worker.Fold{
	{Name: "balances", Fold: func(ctx context.Context, q *db.Queries) (int, error) { return ledger.Fold(ctx, q, balancePage) }},
	{Name: "items", Fold: func(ctx context.Context, q *db.Queries) (int, error) { return community.FoldItems(ctx, q, itemPage) }},
	{Name: "polls", Fold: func(ctx context.Context, q *db.Queries) (int, error) { return community.FoldPolls(ctx, q, itemPage) }},
}

func (s *service) dial() error {
	for _, node := range s.config.Nodes {
		client, err := lightning.Dial(lightning.Config{Name: node.Name, Address: node.Address, Network: s.config.Network,
			TLSCertPath: node.TLS, MacaroonPath: node.Macaroon, Sends: node.Sends, Log: s.log, Traces: s.traces})
		if err != nil {
			return err
		}
		s.clients = append(s.clients, client)
	}
	nodes, err := lightning.NewNodes(s.clients...)
	if err != nil {
		return err
	}
	nodes.Known = pool.NewRegister(s.pool, time.Now).Known
	s.nodes = nodes
	return nil
}

func (s *service) close() {
	if s.places != nil {
		s.places.Close()
	}
	if s.locker != nil {
		if err := s.locker.Close(); err != nil {
			s.log.Warn("the lock was not closed cleanly", "error", err)
		}
	}
	var closing sync.WaitGroup // each may wait for its node
	for _, client := range s.clients {
		closing.Go(func() { _ = client.Close() }) // not used any more
	}
	closing.Wait()
}

// run serves until ctx ends, and then returns nil; otherwise it returns the reason why the service cannot go on.
func (s *service) run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Listen)
	if err != nil {
		return fmt.Errorf("%w; set HOLDFAST_LISTEN to a free address", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.feed.Run(ctx) })
	group.Go(func() error { return s.watchTimeline(ctx) })
	for _, client := range s.clients {
		group.Go(func() error { return s.checkNode(ctx, client) })
	}
	if s.worker != nil {
		group.Go(func() error { return s.worker.Run(ctx) })
		if s.relay != nil { // also where no node sends any more
			group.Go(func() error { return s.relay.Run(ctx, s.engine.Drive) })
		}
	}
	for _, l := range s.listeners {
		group.Go(func() error { return l.Run(ctx) })
	}
	group.Go(func() error { return s.serveHTTP(ctx, listener) })
	s.log.InfoContext(ctx, "serving", "address", listener.Addr().String(), "roles", s.config.Roles, "nodes", len(s.clients))
	if len(s.clients) == 0 {
		s.log.WarnContext(ctx, "no Lightning node is configured: only balances can pay; set HOLDFAST_NODES")
	}
	err = group.Wait()
	s.log.InfoContext(ctx, "stopped")
	return err
}

// How long clients may take. Streams and files set their own limit for each piece that they write.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 3 * time.Minute // from the start of the request; a file may take two minutes to arrive
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	shutdownTimeout   = 10 * time.Second
)

// serveHTTP serves until ctx ends. Clients that wait for an answer then have shutdownTimeout to get it.
func (s *service) serveHTTP(ctx context.Context, listener net.Listener) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{
		Handler: streamsUntil(ctx, s.routes()), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		BaseContext:    func(net.Listener) context.Context { return requests },
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err := server.Shutdown(limited)
		if err != nil {
			_ = server.Close() // cut off the clients that are not finished by now
		}
		stopped <- err
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve HTTP: %w", err)
	}
	if err := <-stopped; err != nil {
		s.log.WarnContext(ctx, "requests were cut off by the shutdown", "error", err)
	}
	return nil
}

// streamsUntil ends subscriptions when ctx ends. They never end by themselves, and a shutdown neither waits for
// websockets nor tells them.
func streamsUntil(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			stream, end := context.WithCancel(r.Context())
			defer end()
			defer context.AfterFunc(ctx, end)()
			r = r.WithContext(stream)
		}
		next.ServeHTTP(w, r)
	})
}

// checkNode asks a node whether it can serve us, until it says so. If the node or our settings must be changed, waiting
// cannot help, so the service stops with a sentence that says what to do. That is a failure and no refusal of settings:
// whoever starts it again finds a node, or a macaroon, that was mended meanwhile. For any other trouble with one node,
// for example with its chain backend, everything that does not need that node goes on.
func (s *service) checkNode(ctx context.Context, client *lightning.Client) error {
	for unreached, sick := false, false; ; {
		err := client.Check(ctx)
		if err == nil {
			err = s.meet(ctx, client)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			s.log.InfoContext(ctx, "the Lightning node can serve", "node", client.Name())
			return nil
		case errors.Is(err, lightning.ErrUnfit):
			return err
		case errors.Is(err, lightning.ErrUnreachable) && !unreached:
			unreached = true
			s.log.WarnContext(ctx, "the Lightning node cannot be reached; its invoices have to wait", "node", client.Name(), "error", err)
		case !errors.Is(err, lightning.ErrUnreachable) && !sick:
			sick = true
			s.log.WarnContext(ctx, "the Lightning node does not say whether it can serve; its invoices may have to wait", "node", client.Name(), "error", err)
		}
		if (worker.RealClock{}).Wait(ctx, 2*time.Second) != nil {
			return nil
		}
	}
}

// meet remembers which node answers under a name. The pool does so for a process that sends; but commands that act on
// what a node does not know (sameNodes) must tell it from another one also where nothing is sent.
func (s *service) meet(ctx context.Context, client *lightning.Client) error {
	key, err := client.PublicKey(ctx)
	if err == nil {
		_, err = pool.NewRegister(s.pool, time.Now).Meet(ctx, client.Name(), key)
	}
	return err
}
