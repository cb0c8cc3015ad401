package devnet

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
)

// Payment is the outcome of paying an invoice.
type Payment struct {
	Settled    bool
	Failure    string // LND's reason; empty if settled
	AmountMsat int64
	FeeMsat    int64
	Preimage   string // hex; empty unless settled
}

// Pay pays a BOLT 11 invoice from the node and waits for the outcome: for a hold invoice until its receiver settles or cancels.
// A payment that fails is an outcome, not an error. If the context ends before, the payment goes on without a watcher.
func (n *Node) Pay(ctx context.Context, bolt11 string) (Payment, error) {
	return pay(ctx, routerrpc.NewRouterClient(n.connection), bolt11)
}

// Pay pays an invoice from a node of another process's network, found in its [Record].
func (r NodeRecord) Pay(ctx context.Context, bolt11 string) (Payment, error) {
	connection, err := dial(r.Address, r.TLSCert, r.Macaroon)
	if err != nil {
		return Payment{}, err
	}
	defer connection.Close()
	return pay(ctx, routerrpc.NewRouterClient(connection), bolt11)
}

func pay(ctx context.Context, router routerrpc.RouterClient, bolt11 string) (Payment, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates, err := router.SendPaymentV2(ctx, &routerrpc.SendPaymentRequest{
		PaymentRequest: bolt11,
		TimeoutSeconds: 30,        // for finding a way; a payment that is under way is not given up
		FeeLimitMsat:   1_000_000, // coins of this network are worth nothing
	})
	if err != nil {
		return Payment{}, fmt.Errorf("pay: %w", err)
	}
	for {
		update, err := updates.Recv()
		if err != nil {
			return Payment{}, fmt.Errorf("pay: %w", err)
		}
		switch update.Status {
		case lnrpc.Payment_SUCCEEDED:
			return Payment{Settled: true, AmountMsat: update.ValueMsat, FeeMsat: update.FeeMsat, Preimage: update.PaymentPreimage}, nil
		case lnrpc.Payment_FAILED:
			return Payment{Failure: update.FailureReason.String(), AmountMsat: update.ValueMsat}, nil
		}
	}
}

// Invoice makes an invoice of the node for an amount in millisatoshi.
func (n *Node) Invoice(ctx context.Context, msat int64, memo string) (bolt11 string, err error) {
	if msat <= 0 {
		return "", errors.New("an invoice of nothing")
	}
	invoice, err := n.lightning().AddInvoice(ctx, &lnrpc.Invoice{ValueMsat: msat, Memo: memo})
	if err != nil {
		return "", fmt.Errorf("%s: add invoice: %w", n.name, err)
	}
	return invoice.PaymentRequest, nil
}
