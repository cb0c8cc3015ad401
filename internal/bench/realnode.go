package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// lnd is a network of real nodes.
type lnd struct {
	network *devnet.Network
	node    *lightning.Client // the service's node, seen from outside the service
}

// startLND starts a network in dir.
func startLND(ctx context.Context, dir string, o Options) (*lnd, error) {
	network, err := devnet.Start(ctx, devnet.Options{Dir: filepath.Join(dir, "network"), Bin: o.Programs, Log: o.say})
	if err != nil {
		return nil, err
	}
	ours := network.Node(devnet.Holdfast)
	node, err := lightning.Dial(lightning.Config{Name: ours.Name(), Address: ours.Address(), Network: "simnet",
		TLSCertPath: ours.TLSCert(), MacaroonPath: ours.Macaroon()})
	if err != nil {
		network.Stop()
		return nil, err
	}
	return &lnd{network, node}, nil
}

// settings are the settings of a service with the node. All files that they name are the node's.
func (l *lnd) settings(string) ([]string, error) {
	ours := l.network.Node(devnet.Holdfast)
	return []string{nodeSetting(ours.Address(), ours.TLSCert(), ours.Macaroon()), "HOLDFAST_NETWORK=simnet"}, nil
}

func (l *lnd) stop() error {
	err := l.node.Close()
	l.network.Stop()
	return err
}

// realRun is a benchmark with a real network under way.
type realRun struct {
	Options
	*lnd
	database *database
	service  *service
	api      api
	next     int // the next payer
}

// realNode measures invoices and payments of a real LND: how much slower invoices are made through the service than by
// the node alone, and which share of a payment's time is the service's.
func realNode(ctx context.Context, o Options) (_ *RealReport, err error) {
	scratch, err := child.NewScratch("holdfast-realnode")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	r := &realRun{Options: o}
	if r.lnd, err = startLND(ctx, scratch.Dir, o); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.lnd.stop()) }()
	o.say("Filling the database: %d users, %d items.", o.Users, o.Items)
	if r.database, err = startDatabase(ctx, scratch.Dir, o, flowSettings); err != nil {
		return nil, err
	}
	defer r.database.Stop()
	settings, err := r.lnd.settings(scratch.Dir)
	if err != nil {
		return nil, err
	}
	if r.service, err = newService(scratch.Dir, o.Holdfast, r.database.DSN(holdfastDB), settings...); err != nil {
		return nil, err
	}
	if err := r.service.start(ctx); err != nil {
		return nil, err
	}
	defer r.service.stop()
	r.api = newAPI(r.service.address, openers)
	defer r.api.close()
	report := &RealReport{}
	if err := r.shares(ctx, report); err != nil {
		return nil, fmt.Errorf("payments: %w", err)
	}
	if err := r.creations(ctx, report); err != nil {
		return nil, fmt.Errorf("invoices: %w", err)
	}
	return report, r.service.reconcile(ctx)
}

// zap asks for the invoice of a zap by a user, counted from 0 here.
func (r *realRun) zap(ctx context.Context, payer int, method string) (opened, error) {
	author := (payer + r.Users/2) % r.Users
	return openZap(ctx, r.api, r.database.keys[payer%r.Users], r.database.itemBy(author), method)
}
