package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/apiclient"
	"github.com/a-seed-a7aed72f/holdfast/internal/freeport"
	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// processes are the service's processes, with the roles of each.
var processes = []struct{ name, roles string }{
	{"api-1", "api"}, {"api-2", "api"}, {"worker-1", "worker,listener"}, {"worker-2", "worker,listener"},
}

// fleet is all the parts of a stack.
type fleet struct {
	parts []*part
	urls  []string // of the processes that serve the API
}

func newPart(name string, c class) *part {
	return &part{name: name, class: c, blows: make(chan time.Duration), idle: make(chan struct{})}
}

// assemble makes the parts of a stack that was started without the service. It starts nothing.
func assemble(s *stack.Stack) (*fleet, error) {
	f := &fleet{}
	postgres := newPart("postgresql", database)
	postgres.kill, postgres.start, postgres.runs = s.Postgres.Crash, s.Postgres.Resume, s.Postgres.Running
	ports, err := freeport.Pick(len(processes))
	if err != nil {
		return nil, err
	}
	var apis []*part
	for i, own := range processes {
		address := fmt.Sprintf("127.0.0.1:%d", ports[i])
		server := s.Process(own.name, own.name+".log", "HOLDFAST_LISTEN="+address, "HOLDFAST_ROLES="+own.roles)
		p := newPart(own.name, services)
		p.kill, p.runs = server.Kill, server.Running
		p.start = func(context.Context) error { return server.Start() }
		p.needs, p.bounded = [][]*part{{postgres}}, true
		if own.roles == "api" {
			p.serves = func(ctx context.Context) error { return answers(ctx, "http://"+address) }
			f.urls, apis = append(f.urls, "http://"+address), append(apis, p)
		} else {
			p.serves = func(ctx context.Context) error { return healthy(ctx, "http://"+address) }
		}
		f.parts = append(f.parts, p)
	}
	postgres.needs, postgres.bounded = [][]*part{apis}, true
	postgres.serves = func(ctx context.Context) error {
		var all []error
		for _, url := range f.urls {
			err := answers(ctx, url)
			if err == nil {
				return nil
			}
			all = append(all, err)
		}
		return errors.Join(all...)
	}
	f.parts = append(f.parts, postgres)

	chain := newPart("btcd", nodes)
	chain.kill, chain.runs, chain.serves = s.Network.KillChain, s.Network.ChainRuns, soon(s.Network.ResumeChain)
	chain.start, chain.patience = chain.serves, nodePatience
	f.parts = append(f.parts, chain)
	for _, name := range []string{devnet.Holdfast, devnet.Holdfast2, devnet.Payer, devnet.Receiver} {
		p := newPart(name, nodes)
		p.kill = func() { s.Network.KillNode(name) }
		p.runs = func() bool { return s.Network.NodeRuns(name) }
		p.serves = soon(func(ctx context.Context) error { return s.Network.ResumeNode(ctx, name) })
		p.start, p.patience = p.serves, nodePatience
		f.parts = append(f.parts, p)
	}
	return f, nil
}

// nodePatience is how long btcd or a node may take to start. LND hangs for ever if btcd dies while LND starts.
const nodePatience = 40 * time.Second

// nodeProbe is how long one look may take: btcd may have to get blocks back first.
const nodeProbe = 10 * time.Second

// soon limits the time of one look at whether a node serves.
func soon(look func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, nodeProbe)
		defer cancel()
		return look(ctx)
	}
}

// awaitIdle returns when every part runs and serves.
func (f *fleet) awaitIdle(ctx context.Context) error {
	for _, p := range f.parts {
		if err := p.awaitIdle(ctx); err != nil {
			return fmt.Errorf("%s does not serve: %w", p.name, err)
		}
	}
	return nil
}

// probeTimeout is how long one look at whether a process serves may take.
const probeTimeout = time.Second

var probes = &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}}

// answers asks a process that serves the API for something that only the database knows.
func answers(ctx context.Context, url string) error {
	var feed struct{ Nodes []struct{ ID string } }
	return apiclient.Ask(ctx, probes, url, "", &feed, `{ items(first: 1) { nodes { id } } }`, nil)
}

// healthy asks a process without the API whether it lives. It answers only once it has reached its database.
func healthy(ctx context.Context, url string) error {
	return apiclient.Reach(ctx, probes, url+"/healthz")
}
