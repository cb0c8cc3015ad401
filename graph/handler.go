// Package graph is Holdfast's API: GraphQL (schema.graphql) over HTTP, websockets and server-sent events, and a page to
// try it on. It finds out who asks, refuses what they may not do and what would cost too much to answer, and shows what
// is stored. It decides nothing about money: a mutation that costs something becomes one call of the engine (pay in
// action.go). Begin with NewHandler, and with newExecutor, which lists what a request passes through.
package graph

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/sitejwt"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
	"github.com/a-seed-a7aed72f/holdfast/webhook"
)

// Updates tells when an action may have changed.
type Updates interface {
	// Subscribe returns a channel that gets a value when the action may have changed, and from time to time without a
	// reason. Nobody waits for a slow reader: several changes may come as one value. The subscription ends with the
	// context. If the channel is closed before that, nothing more will come.
	Subscribe(ctx context.Context, action int64) <-chan struct{}
}

// Config is what the API is made of. Engine, Pool, Updates, Wallets and Webhooks are required; the rest has defaults.
type Config struct {
	Engine   *paidaction.Engine
	Pool     *pgxpool.Pool
	Updates  Updates
	Wallets  *wallet.Wallets
	Webhooks *webhook.Webhooks

	Public    *url.URL          // where people reach the service; wallets that sign in need it; nil: none can
	NewUsers  bool              // a wallet that is not known makes a user
	Site      *sitejwt.Verifier // verifies a site's tokens, which are accepted besides our keys; nil: none are
	KeepsKeys time.Duration     // how long a key got by signing in is good; default 30 days

	Development    bool           // sign-up, introspection and suggestions are open
	Origins        []string       // further origins whose pages may open websockets, such as https://example.org
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	RecheckKeys    time.Duration  // how long a subscription goes on before its key is looked up again; default 15 s
	Keepalive      time.Duration  // how often an idle connection is pinged; default 20 seconds
	GatherFor      time.Duration  // how long a field waits for others to share a query with; default 2 milliseconds
	Limits         Limits
	Rates          Rates              // the zero value sets no limits
	Prices         community.Settings // those that the engine's actions have; default community.DefaultSettings

	Now func() time.Time // default time.Now
	Log *slog.Logger     // default slog.Default()
}

func (c *Config) defaults() error {
	if c.Engine == nil || c.Pool == nil || c.Updates == nil || c.Wallets == nil || c.Webhooks == nil {
		return errors.New("graph: an engine, a database pool, updates, wallets and webhooks are needed")
	}
	c.KeepsKeys = cmp.Or(c.KeepsKeys, 30*24*time.Hour)
	c.RecheckKeys = cmp.Or(c.RecheckKeys, 15*time.Second)
	c.Keepalive = cmp.Or(c.Keepalive, 20*time.Second)
	c.GatherFor = cmp.Or(c.GatherFor, 2*time.Millisecond)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Prices = cmp.Or(c.Prices, community.DefaultSettings())
	if err := c.Rates.check(); err != nil {
		return err
	}
	return c.Limits.defaults()
}

// API is the handler, and the door for whatever else is served to people without a key.
type API struct {
	http.Handler
	door *door
}

// Ask counts a request without a key that another handler of this process answers, like a request to the API; if pays,
// also like a paying one. It returns the client address for Caller.Client.
//
// Errors: RATE_LIMITED, with how many seconds to wait.
func (a *API) Ask(r *http.Request, pays bool) (client string, wait int, err error) {
	s := &session{client: clientAddress(r, a.door.TrustedProxies)}
	now := a.door.Now()
	if err = a.door.meters.asking(s, now); err == nil && pays {
		err = a.door.meters.paying(s, now)
	}
	if limited := new(rateError); errors.As(err, &limited) {
		wait = limited.wait
	}
	return s.client, wait, err
}

// NewHandler serves the API at /graphql, files at /uploads and a page to try it on at /playground. Subscriptions end
// with the context of their requests. So cancel the server's BaseContext to shut down: http.Server.Shutdown alone does
// not end them.
func NewHandler(c Config) (*API, error) {
	if err := c.defaults(); err != nil {
		return nil, err
	}
	d := &door{resolver: &resolver{Config: c, kinds: kinds(), keys: c.lookUpKeys(), subjects: c.lookUpSubjects(), meters: newMeters(c.Rates),
		sockets: newSlots(math.MaxInt, c.Limits.Sockets), followed: newSlots(math.MaxInt, c.Limits.Subscriptions),
		unread:  newSlots(math.MaxInt, c.Limits.Unread),
		reading: newReading(c.Pool.Config().MaxConns), writing: newWriting(c.Pool.Config().MaxConns)}}
	d.kinds[community.KindInviteGift] = boxed[schema.InviteGiftAction] // the payer is not the caller
	d.executor = d.newExecutor()
	mux := http.NewServeMux()
	mux.Handle("/graphql", d)
	f := &files{d, newSlots(uploadsAtOnce, uploadsOfOne), newSlots(uploadsAtOnce, uploadsOfOne)}
	mux.HandleFunc("POST /uploads", f.post)
	mux.HandleFunc("GET /uploads/{token}", f.get)
	mux.Handle("GET /playground/", http.StripPrefix("/playground/", playground()))
	mux.Handle("GET /playground", http.RedirectHandler("/playground/", http.StatusSeeOther))
	return &API{mux, d}, nil
}

// door lets requests in. It determines who they come from, and refuses what is not a valid request, before GraphQL sees
// them.
type door struct {
	*resolver
	executor *handler.Server
}

func (d *door) newExecutor() *handler.Server {
	executable := schema.NewExecutableSchema(schema.Config{Schema: offered(), Resolvers: d.resolver, Complexity: d.complexity()})
	s := handler.New(executable)
	s.AddTransport(transport.Websocket{
		Implementation:   websockets{},
		InitFunc:         d.initWebsocket,
		InitTimeout:      d.Limits.Init,
		PingPongInterval: d.Keepalive,
		PayloadReadLimit: &d.Limits.Body,
		ErrorFunc: func(ctx context.Context, err error) {
			d.Log.DebugContext(ctx, "a websocket ended", "error", err)
		},
	})
	s.AddTransport(transport.SSE{KeepAlivePingInterval: d.Keepalive})
	s.AddTransport(transport.POST{})

	s.SetErrorPresenter(d.present)
	s.SetRecoverFunc(d.recovered)
	known := lru.New[*ast.QueryDocument](100)
	s.SetQueryCache(known)
	s.SetParserTokenLimit(d.Limits.Tokens)
	s.Use(gate{d.resolver})
	s.Use(documents{d.Limits, executable.Schema(), rulesOf(d.Development), known})
	s.Use(extension.FixedComplexityLimit(d.Limits.Complexity))
	if d.Development {
		s.Use(extension.Introspection{})
	}
	s.AroundOperations(untilItEnds)
	s.AroundOperations(d.aroundAnswers)
	s.AroundOperations(d.aroundOperation)
	s.AroundResponses(d.aroundResponse)
	s.AroundRootFields(d.aroundRootField)
	s.AroundFields(aroundField)
	return s
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	var err error
	websocket := strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	if websocket {
		err = d.checkUpgrade(r)
	} else {
		r.Header.Del("Upgrade") // else gqlgen sees a websocket: Java's client and curl offer h2c like this
		err = d.readBody(w, r)
	}
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	s, err := d.authenticate(r.Context(), r.Header.Get("Authorization"), clientAddress(r, d.TrustedProxies))
	if err == nil {
		err = d.meters.asking(s, d.Now())
	}
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	if websocket {
		s.slots = make(chan struct{}, d.Limits.Operations)
		upgrade := &patientUpgrade{ResponseWriter: w, patient: 2 * d.Keepalive}
		defer upgrade.close()
		w = upgrade
		gone := make(chan struct{})
		defer close(gone)
		s.line.ending, s.line.gone = r.Context().Done(), gone
	}
	r = r.WithContext(withSession(r.Context(), s))
	if !websocket && strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		ctx, cut := context.WithCancel(r.Context())
		defer cut()
		r, s.line.cut = r.WithContext(ctx), cut
		stream := newStreamWriter(ctx, w, 2*d.Keepalive)
		defer stream.close()
		w = stream
	}
	d.executor.ServeHTTP(w, r)
}
