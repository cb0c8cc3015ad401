package bench

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/benchdb"
	"github.com/a-seed-a7aed72f/holdfast/internal/bench/fakenode"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// flow is one way of paying for a zap by invoice.
type flow struct {
	name   string
	method string
	goal   float64 // goal, in invoices a second
}

// flows are all of them.
var flows = []flow{{"optimistic", "OPTIMISTIC", 1000}, {"pessimistic", "PESSIMISTIC", 500}, {wrapped, "P2P", 250}}

const (
	// wrapped is the flow that pays a receiver's own wallet.
	wrapped = "wrapped"
	// steady is how many payments come each second while latency is measured.
	steady = 100
	// The goals for the latency from the event at the node to PAID, in milliseconds.
	goalP50, goalP99 = 10, 50
	// openers is how many clients ask for invoices in parallel. How fast these are made is not measured here.
	openers = 16
	// each is how many invoices of one receiver's wallet may be in payment at once; more are refused
	// (HOLDFAST_RELAY_MAX_FORWARDS).
	each = 5
)

// flowSettings make it possible to read afterwards when each commit happened and how long flushing took.
var flowSettings = map[string]string{"track_commit_timestamp": "on", "track_wal_io_timing": "on"}

// flowRun is a benchmark of flows under way.
type flowRun struct {
	Options
	database  *database
	service   *service
	node      *fakenode.Process
	api       api
	receivers int // the users 1, 2, 3, … have wallets
}

// Lightning measures how invoices are made and become paid actions, with a fake node that is as fast as asked, and with
// a real one. It leaves nothing running and nothing behind.
func Lightning(ctx context.Context, o Options) (*FlowReport, error) {
	o = o.defaults()
	report, err := fakeFlows(ctx, o)
	if err != nil {
		return nil, err
	}
	o.say("\nWith a real LND:")
	if report.LND, err = realNode(ctx, o); err != nil {
		return nil, fmt.Errorf("with a real LND: %w", err)
	}
	report.rounds = append(report.rounds, report.LND.rounds...)
	if n := report.noise(); !n.within(quiet) && !o.Noisy {
		return nil, noisy(n)
	}
	return report, nil
}

// fakeFlows measures how fast invoices of a fake node become paid actions, and what the service adds to each.
func fakeFlows(ctx context.Context, o Options) (_ *FlowReport, err error) {
	scratch, err := child.NewScratch("holdfast-flows")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	f := &flowRun{Options: o}
	if f.node, err = fakenode.Start(exec.CommandContext(ctx, o.FakeNode[0], o.FakeNode[1:]...)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.node.Stop()) }()
	o.say("Filling the database: %d users, %d items.", o.Users, o.Items)
	if f.database, err = startDatabase(ctx, scratch.Dir, o, flowSettings); err != nil {
		return nil, err
	}
	defer f.database.Stop()
	settings, err := nodeSettings(scratch.Dir, f.node.Node)
	if err != nil {
		return nil, err
	}
	if f.service, err = newService(scratch.Dir, o.Holdfast, f.database.DSN(holdfastDB), settings...); err != nil {
		return nil, err
	}
	if err := f.service.start(ctx); err != nil {
		return nil, err
	}
	defer f.service.stop()
	f.api = newAPI(f.service.address, openers)
	defer f.api.close()
	if err := f.saveWallets(ctx); err != nil {
		return nil, err
	}
	report := newFlowReport(o)
	for round := range o.Rounds {
		o.say("\nRound %d of %d", round+1, o.Rounds)
		report.begin()
		if err := f.round(ctx, report); err != nil {
			return nil, err
		}
	}
	report.Machine, err = f.database.machine(ctx)
	return report, err
}

// nodeSettings are the settings of a service with the fake node. Receivers' wallets are on this machine, which
// development mode allows. All clients may try routes to the same receiver at once, which happens on a busy machine.
func nodeSettings(dir string, at fakenode.Place) ([]string, error) {
	macaroon, err := hex.DecodeString(at.Macaroon)
	if err != nil {
		return nil, err
	}
	certificateFile, macaroonFile := filepath.Join(dir, "tls.cert"), filepath.Join(dir, "admin.macaroon")
	err = errors.Join(os.WriteFile(certificateFile, []byte(at.Certificate), 0o600), os.WriteFile(macaroonFile, macaroon, 0o600))
	return []string{nodeSetting(at.Address, certificateFile, macaroonFile), "HOLDFAST_NETWORK=regtest", "HOLDFAST_DEVELOPMENT=1",
		fmt.Sprint("HOLDFAST_RELAY_MAX_PROBES=", openers)}, err
}

// nodeSetting says where the service's one node is.
func nodeSetting(address, certificateFile, macaroonFile string) string {
	return fmt.Sprintf("HOLDFAST_NODES=holdfast=%s;tls=%s;macaroon=%s", address, certificateFile, macaroonFile)
}

// round measures each flow once.
func (f *flowRun) round(ctx context.Context, report *FlowReport) error {
	for i, way := range flows {
		// Warm up first, so that what a connection plans at first use, and what the service learns of the node, is not
		// counted.
		if _, err := f.measure(ctx, way, f.atMost(steady), 0); err != nil {
			return fmt.Errorf("%s, warming up: %w", way.name, err)
		}
		burst, err := quietly(&report.watch, f.Options, func() (flowOutcome, error) { return f.measure(ctx, way, f.atMost(way.goal*f.Takes.Seconds()), 0) })
		if err != nil {
			return fmt.Errorf("%s, all at once: %w", way.name, err)
		}
		f.say("  %-12s all at once: %s", way.name, burst)
		open, err := quietly(&report.watch, f.Options, func() (flowOutcome, error) { return f.measure(ctx, way, f.atMost(steady*f.Takes.Seconds()), steady) })
		if err != nil {
			return fmt.Errorf("%s, %d a second: %w", way.name, steady, err)
		}
		f.say("  %-12s %d a second: %s", way.name, steady, open)
		report.Flows[i].add(burst, open)
	}
	return nil
}

// atMost is n, limited to the number of payers: each invoice is for another payer, so that nobody waits for a turn.
func (f *flowRun) atMost(n float64) int { return min(int(n), f.Users/2) }

// saveWallets gives wallets to the first users, to so many that no receiver exceeds the limit of payments at once.
func (f *flowRun) saveWallets(ctx context.Context) error {
	most := 0
	for _, way := range flows {
		if way.name == wrapped {
			most = f.atMost(max(way.goal, steady) * max(f.Takes.Seconds(), 1))
		}
	}
	f.receivers = (most + each - 1) / each
	f.say("Saving the wallets of %d receivers.", f.receivers)
	return f.side(ctx, f.receivers, func(ctx context.Context, i int) error {
		to := f.node.Receiver
		var saved struct{ ID string }
		return f.api.do(ctx, f.database.keys[i], `mutation($settings:WalletSettings!){walletSave(settings:$settings){id}}`, map[string]any{
			"settings": map[string]any{"lndGrpc": map[string]any{"address": to.Address, "macaroon": to.Macaroon, "certificate": to.Certificate}}}, &saved)
	})
}

// side does n things, some of them in parallel.
func (f *flowRun) side(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(openers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// open asks for the invoices of n zaps, each by a different user. The zaps of the wrapped flow go to the receivers in
// turn.
func (f *flowRun) open(ctx context.Context, way flow, n int) ([]paidaction.Hash, error) {
	hashes, authors := make([]paidaction.Hash, n), f.Users
	if way.name == wrapped {
		authors = f.receivers
	}
	return hashes, f.side(ctx, n, func(ctx context.Context, i int) error {
		payer := (i + f.Users/2) % f.Users
		opened, err := openZap(ctx, f.api, f.database.keys[payer], f.database.itemBy(i%authors), way.method)
		hashes[i] = opened.hash
		return err
	})
}

// itemBy is an item of a user, counted from 0 here: item i is by user 1 + i modulo the number of users.
func (d *database) itemBy(author int) int { return author + d.users }

// opened is an invoice that can be paid.
type opened struct {
	hash   paidaction.Hash
	bolt11 string
}

// openZap asks for the invoice of a zap.
func openZap(ctx context.Context, a api, key string, item int, method string) (o opened, err error) {
	var answer struct {
		Invoice struct{ Bolt11, PaymentHash string }
	}
	err = a.do(ctx, key, `mutation($item:ID!,$sats:Sats!,$method:PaymentMethod!){zap(item:$item,sats:$sats,paymentMethod:$method)`+
		`{id state invoice{bolt11 paymentHash}}}`, map[string]any{"item": fmt.Sprint(item), "sats": sats, "method": method}, &answer)
	if err != nil {
		return o, err
	}
	o.bolt11 = answer.Invoice.Bolt11
	raw, err := hex.DecodeString(answer.Invoice.PaymentHash)
	if err != nil || copy(o.hash[:], raw) != len(o.hash) || o.bolt11 == "" {
		return o, fmt.Errorf("the service gives no invoice that can be paid: %+v", answer)
	}
	return o, nil
}

// measure opens invoices, has them paid, waits until everything that follows is done, and compares the books with the
// payments.
func (f *flowRun) measure(ctx context.Context, way flow, n int, rate float64) (o flowOutcome, err error) {
	b, err := openBooks(ctx, f.database.DSN(holdfastDB))
	if err != nil {
		return o, err
	}
	defer b.close(context.WithoutCancel(ctx))
	hashes, err := f.open(ctx, way, n)
	if err != nil {
		return o, errors.Join(err, b.walletFailures(ctx))
	}
	before, err := b.flushes(ctx)
	if err != nil {
		return o, err
	}
	cpu, err := used(f.database, f.service)
	if err != nil {
		return o, err
	}
	paid, err := f.node.Pay(rate, hashes...)
	if err != nil {
		return o, err
	}
	if err := b.settle(ctx); err != nil {
		return o, err
	}
	spent, err := used(f.database, f.service)
	if err != nil {
		return o, err
	}
	after, err := b.flushes(ctx)
	if err != nil {
		return o, err
	}
	zaps, err := benchdb.New(b.connection).ZapsSince(ctx, b.LastAction)
	if err != nil {
		return o, err
	}
	if zaps.Paid != int64(n) || zaps.Others != 0 || zaps.CostMsat != int64(n)*sats*1000 {
		return o, fmt.Errorf("%d invoices were paid, and of the actions %d are PAID and %d are not, for %d msat", n, zaps.Paid, zaps.Others, zaps.CostMsat)
	}
	if err := f.service.reconcile(ctx); err != nil {
		return o, err
	}
	moments, err := b.moments(ctx, hashes, paid)
	if err != nil {
		return o, err
	}
	o = moments.outcome(after.since(before))
	o.ServiceUs, o.PostgresUs = perAction(spent[0]-cpu[0], int64(n)), perAction(spent[1]-cpu[1], int64(n))
	return o, nil
}
