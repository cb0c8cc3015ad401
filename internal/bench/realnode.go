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

// realRun is a benchmark with a real network under way.
type realRun struct {
	Options
	database *database
	service  *service
	api      api
	network  *devnet.Network
	node     *lightning.Client // the service's node, from beside the service
	next     int               // payer
}

// realNode measures invoices and payments of a real LND: how much slower invoices are made through the service than by the node alone, and
// how much of a payment's time is the service's.
func realNode(ctx context.Context, o Options) (_ *RealReport, err error) {
	scratch, err := child.NewScratch("holdfast-realnode")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	r := &realRun{Options: o}
	if r.network, err = devnet.Start(ctx, devnet.Options{Dir: filepath.Join(scratch.Dir, "network"), Bin: o.Programs, Log: o.say}); err != nil {
		return nil, err
	}
	defer r.network.Stop()
	o.say("Filling the database: %d users, %d items.", o.Users, o.Items)
	if r.database, err = startDatabase(ctx, scratch.Dir, o, flowSettings); err != nil {
		return nil, err
	}
	defer r.database.Stop()
	ours := r.network.Node(devnet.Holdfast)
	r.service, err = newService(scratch.Dir, o.Holdfast, r.database.DSN(holdfastDB), nodeSetting(ours.Address(), ours.TLSCert(), ours.Macaroon()), "HOLDFAST_NETWORK=simnet")
	if err != nil {
		return nil, err
	}
	r.node, err = lightning.Dial(ctx, lightning.Config{Name: ours.Name(), Address: ours.Address(), Network: "simnet", TLSCertPath: ours.TLSCert(), MacaroonPath: ours.Macaroon()})
	if err != nil {
		return nil, err
	}
	defer r.node.Close()
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

// zap asks for the invoice of a zap by one of the users, who count from 0 here.
func (r *realRun) zap(ctx context.Context, payer int, method string) (opened, error) {
	author := (payer + r.Users/2) % r.Users
	return openZap(ctx, r.api, r.database.keys[payer%r.Users], r.database.itemBy(author), method)
}
