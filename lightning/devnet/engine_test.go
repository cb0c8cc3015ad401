package devnet_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode/nodetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// client is the adapter for the service's node.
func client(t *testing.T, network *devnet.Network) *lightning.Client {
	t.Helper()
	return clientOf(t, network.Node(devnet.Holdfast))
}

// clientOf has a macaroon with only the permissions that Holdfast asks for, so that everything here is tested with
// these.
func clientOf(t *testing.T, node *devnet.Node) *lightning.Client {
	t.Helper()
	c := dialWith(t, node, lightning.Permissions(true))
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// dialWith is the adapter for a node, with a macaroon that permits these calls.
func dialWith(t *testing.T, node *devnet.Node, permitted []string) *lightning.Client {
	t.Helper()
	var bake lnrpc.BakeMacaroonRequest
	for _, method := range permitted {
		bake.Permissions = append(bake.Permissions, &lnrpc.MacaroonPermission{Entity: "uri", Action: method})
	}
	baked, err := lnrpc.NewLightningClient(node.Conn()).BakeMacaroon(t.Context(), &bake)
	if err != nil {
		t.Fatal(err)
	}
	c, err := lightning.Dial(lightning.Config{Name: node.Name(), Address: node.Address(), Network: "simnet",
		TLSCertPath: node.TLSCert(), MacaroonHex: baked.Macaroon, Sends: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Each call that a macaroon does not permit is found at the start, and named as bakemacaroon wants it. The other tests
// show that the permissions that Check asks for are enough.
func permissions(t *testing.T, network *devnet.Network) {
	all := lightning.Permissions(true)
	for i, method := range all {
		err := dialWith(t, network.Node(devnet.Holdfast), slices.Concat(all[:i], all[i+1:])).Check(t.Context())
		missing := []string{method}
		if i < 2 { // LND cannot be asked what is permitted
			missing = all
		}
		if !errors.Is(err, lightning.ErrNotPermitted) || !strings.HasSuffix(fmt.Sprint(err), "bake one with uri:"+strings.Join(missing, " uri:")) {
			t.Errorf("without %s: %v", method, err)
		}
	}
}

// realEnv runs the suite of the simulated nodes on a real one.
type realEnv struct {
	network *devnet.Network
	client  *lightning.Client
}

func (e realEnv) Node() paidaction.Node         { return e.client }
func (e realEnv) Events() paidaction.NodeEvents { return e.client }
func (e realEnv) Advance(time.Duration)         {}

func (e realEnv) Pay(_ context.Context, bolt11 string) error {
	// A held payment goes on in the background, and ends with the test at the latest.
	go func() { _, _ = e.network.Node(devnet.Payer).Pay(context.Background(), bolt11) }()
	return nil
}

func (e realEnv) MineBlocks(ctx context.Context, blocks uint32) error {
	return e.network.Mine(ctx, int(blocks))
}

func (e realEnv) Restart(ctx context.Context) error {
	return restart(ctx, e.network, devnet.Holdfast, e.client)
}

// restart restarts a node, and waits until its client has found it again.
func restart(ctx context.Context, network *devnet.Network, node string, client *lightning.Client) error {
	if err := network.RestartNode(ctx, node); err != nil {
		return err
	}
	for {
		_, err := client.Info(ctx)
		if !errors.Is(err, lightning.ErrUnreachable) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// PayTotal gives what SendPaymentV2 reads from an invoice, except its amount.
func (e realEnv) PayTotal(ctx context.Context, bolt11 string, total paidaction.Msat, parts int) (taken bool, err error) {
	payer := e.network.Node(devnet.Payer)
	invoice, err := lnrpc.NewLightningClient(payer.Conn()).DecodePayReq(ctx, &lnrpc.PayReqString{PayReq: bolt11})
	if err != nil {
		return false, err
	}
	destination, err := hex.DecodeString(invoice.Destination)
	if err != nil {
		return false, err
	}
	var h paidaction.Hash
	if _, err := hex.Decode(h[:], []byte(invoice.PaymentHash)); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates, err := routerrpc.NewRouterClient(payer.Conn()).SendPaymentV2(ctx, &routerrpc.SendPaymentRequest{
		Dest: destination, PaymentHash: h[:], PaymentAddr: invoice.PaymentAddr, AmtMsat: int64(total), FinalCltvDelta: int32(invoice.CltvExpiry),
		DestFeatures:   []lnrpc.FeatureBit{lnrpc.FeatureBit_TLV_ONION_OPT, lnrpc.FeatureBit_PAYMENT_ADDR_REQ, lnrpc.FeatureBit_MPP_OPT},
		TimeoutSeconds: 30, FeeLimitMsat: 100_000, MaxParts: uint32(parts), MaxShardSizeMsat: (uint64(total) + uint64(parts) - 1) / uint64(parts),
	})
	if err != nil {
		return false, err
	}
	arrived, refused := make(chan error, 1), make(chan error, 1)
	go func() {
		arrived <- e.client.WatchInvoice(ctx, h, func(event paidaction.InvoiceEvent) error {
			if event.State == paidaction.InvoiceAccepted {
				return errArrived
			}
			return nil
		})
	}()
	go func() {
		for {
			update, err := updates.Recv()
			if err != nil || update.Status == lnrpc.Payment_FAILED {
				refused <- err
				return
			}
			if n := len(update.Htlcs); update.Status == lnrpc.Payment_SUCCEEDED && n != parts {
				refused <- fmt.Errorf("paid in %d parts, not in %d", n, parts)
				return
			}
		}
	}()
	select {
	case err := <-arrived:
		if err == nil || errors.Is(err, errArrived) {
			return true, nil
		}
		return false, err
	case err := <-refused:
		if errors.Is(err, io.EOF) { // the stream ends after SUCCEEDED
			err = nil
			taken = true
		}
		return taken, err
	}
}

var errArrived = errors.New("the payment has arrived")

// TestRealNode runs the simulated nodes' suite on a real LND, and checks what spec 01 promises of the engine on one.
func TestRealNode(t *testing.T) {
	network := start(t, t.TempDir(), programs(t), devnet.Holdfast2)
	c := client(t, network)
	w := func(t *testing.T, nodes paidaction.Nodes) *enginetest.World {
		return enginetest.On(t, nodes, paidaction.Settings{})
	}
	nodes, err := lightning.NewNodes(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("permissions", func(t *testing.T) { permissions(t, network) })
	t.Run("overpaid", func(t *testing.T) { overpaid(w(t, nodes), network) })
	t.Run("paid after our cancel", func(t *testing.T) { paidAfterCancel(w(t, racing{c, network})) })
	t.Run("routes, money and clock", func(t *testing.T) { sends(t, c, network) })
	t.Run("outer held and inner paid by one node", func(t *testing.T) { wrapped(t, c, network) })
	t.Run("parts that are added by keysend", func(t *testing.T) { addedByKeysend(t, c, network) })
	t.Run("wallets of the receiver", func(t *testing.T) { wallets(t, c, network) })
	t.Run("safety height while held", func(t *testing.T) { safetyHeight(w(t, nodes), network) })
	t.Run("more than its balance", func(t *testing.T) { lacks(t, network) })
	t.Run("refused unnoted", func(t *testing.T) { refusedUnnoted(t, newRealSending(t, network)) })
	t.Run("what is not refused ends", func(t *testing.T) { whatIsNotRefusedEnds(t, newRealSending(t, network), network) })
	t.Run("conformance of sending", func(t *testing.T) {
		env := newRealSending(t, network)
		nodetest.RunSending(t, func(*testing.T) nodetest.SendingEnv { return env })
	})
	t.Run("conformance", func(t *testing.T) {
		nodetest.Run(t, func(*testing.T) nodetest.Env { return realEnv{network, c} })
	})
	t.Run("closed by force", func(t *testing.T) { closedByForce(t, newRealSending(t, network)) })
	t.Run("moved to native SQL", func(t *testing.T) { movedToNativeSQL(t, c, network) }) // the last: it stays there
}

// awaitState waits until the node reports the invoice in a state.
func awaitState(t testing.TB, c paidaction.NodeEvents, h paidaction.Hash, want paidaction.InvoiceState) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	found := errors.New("found")
	err := c.WatchInvoice(ctx, h, func(e paidaction.InvoiceEvent) error {
		if e.State == want {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		t.Fatalf("the invoice never was %s: %v", want, err)
	}
}

func donate(w *enginetest.World, user int64) *paidaction.PaidAction {
	w.Helper()
	return w.Pay(user, community.KindDonate, community.DonateArgs{Sats: 1000}, paidaction.Pessimistic)
}

// overpaid: SendPaymentV2 pays exactly the amount of an invoice, but a payer can send more by giving hash, secret and
// amount.
func overpaid(w *enginetest.World, network *devnet.Network) {
	c := client(w.TB.(*testing.T), network)
	user := w.User("payer", 0, 0)
	pa := donate(w, user)
	payer := network.Node(devnet.Payer)
	decoded, err := lnrpc.NewLightningClient(payer.Conn()).DecodePayReq(w.Ctx, &lnrpc.PayReqString{PayReq: pa.Invoice.Bolt11})
	if err != nil {
		w.Fatal(err)
	}
	destination, err := hex.DecodeString(decoded.Destination)
	if err != nil {
		w.Fatal(err)
	}
	updates, err := routerrpc.NewRouterClient(payer.Conn()).SendPaymentV2(w.Ctx, &routerrpc.SendPaymentRequest{
		Dest: destination, PaymentHash: pa.Invoice.Hash[:], PaymentAddr: decoded.PaymentAddr, AmtMsat: 1_500_001,
		FinalCltvDelta: int32(decoded.CltvExpiry), DestFeatures: []lnrpc.FeatureBit{lnrpc.FeatureBit_TLV_ONION_OPT, lnrpc.FeatureBit_PAYMENT_ADDR_REQ},
		TimeoutSeconds: 30, FeeLimitMsat: 100_000,
	})
	if err != nil {
		w.Fatal(err)
	}
	awaitState(w, c, pa.Invoice.Hash, paidaction.InvoiceAccepted)
	w.Advance(pa.ID)
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
	w.WantBalance(ledger.UserCredits(user), 500_001)
	w.WantBalance(ledger.RewardSats, 1_000_000)
	w.WantConserved()
	for {
		update, err := updates.Recv()
		if err != nil {
			w.Fatal(err)
		}
		if update.Status == lnrpc.Payment_SUCCEEDED {
			return
		}
	}
}

// racing pays every plain invoice between our decision to cancel it and the node's learning of it.
type racing struct {
	*lightning.Client
	network *devnet.Network
}

func (r racing) Node(string) (paidaction.Node, error)   { return r, nil }
func (r racing) Issuer(context.Context) (string, error) { return r.Name(), nil }
func (r racing) CancelInvoice(ctx context.Context, h paidaction.Hash) error {
	inv, err := r.LookupInvoice(ctx, h)
	if err != nil {
		return err
	}
	if inv.State == paidaction.InvoiceOpen {
		if p, err := r.network.Node(devnet.Payer).Pay(ctx, inv.Bolt11); err != nil || !p.Settled {
			return errors.New("the payment did not arrive")
		}
	}
	return r.Client.CancelInvoice(ctx, h)
}

func paidAfterCancel(w *enginetest.World) {
	author, payer := w.User("author", 100_000, 0), w.User("payer", 0, 0)
	pa := w.Pay(payer, community.KindZap, community.ZapArgs{Item: w.Post(author, "a post"), Sats: 100}, paidaction.Optimistic)
	got, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(payer), pa.ID)
	if err != nil {
		w.Fatal(err)
	}
	if got.State != paidaction.Paid || got.Failure != nil {
		w.Errorf("%s, %v", got.State, got.Failure)
	}
	if n := w.Count(`SELECT count(*) FROM action_history WHERE action_id = $1 AND from_state = 'CANCELING' AND to_state = 'PAID'`, pa.ID); n != 1 {
		w.Error("it did not go through CANCELING")
	}
	w.WantBalance(ledger.UserCredits(author), 99_000+70_000)
	w.WantConserved()
}

// safetyHeight mines up to the safety height while an action is HELD and nothing was settled yet.
func safetyHeight(w *enginetest.World, network *devnet.Network) {
	c := client(w.TB.(*testing.T), network)
	pa := donate(w, w.User("payer", 0, 0))
	paid := make(chan devnet.Payment, 1)
	go func() {
		p, _ := network.Node(devnet.Payer).Pay(w.Ctx, pa.Invoice.Bolt11)
		paid <- p
	}()
	awaitState(w, c, pa.Invoice.Hash, paidaction.InvoiceAccepted)
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Held)
	safety := w.Count(`SELECT deadline_height FROM paid_action WHERE id = $1`, pa.ID)
	height, err := network.Height(w.Ctx)
	if err != nil {
		w.Fatal(err)
	}
	if err := network.Mine(w.Ctx, int(safety)-int(height)); err != nil {
		w.Fatal(err)
	}
	w.Drain()
	w.WantState(pa.ID, paidaction.Failed)
	if p := <-paid; p.Settled || p.Failure == "" {
		w.Errorf("the payer's payment did not come back: %+v", p)
	}
	if n := w.Count(`SELECT count(*) FROM donation WHERE state = 'FAILED'`); n != 1 {
		w.Error("what was performed was not undone")
	}
	w.WantBalance(ledger.RewardSats, 0)
	w.WantConserved()
}
