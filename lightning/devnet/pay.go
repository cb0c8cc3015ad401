package devnet

import (
	"context"
	"fmt"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Payment is the outcome of paying an invoice. A payment that is neither settled nor failed is in flight.
type Payment struct {
	Settled    bool
	Failure    string // LND's reason; empty unless failed
	AmountMsat int64
	FeeMsat    int64  // routing fee; 0 unless settled
	Preimage   string // hex; empty unless settled
}

func paymentOf(p *lnrpc.Payment) Payment {
	switch p.Status {
	case lnrpc.Payment_SUCCEEDED:
		return Payment{Settled: true, AmountMsat: p.ValueMsat, FeeMsat: p.FeeMsat, Preimage: p.PaymentPreimage}
	case lnrpc.Payment_FAILED:
		return Payment{Failure: p.FailureReason.String(), AmountMsat: p.ValueMsat}
	default:
		return Payment{AmountMsat: p.ValueMsat}
	}
}

// Pay pays a BOLT 11 invoice from the node and waits for the outcome: for a hold invoice until its receiver settles or
// cancels. A failed payment is an outcome, not an error. If the context ends earlier, the payment goes on unwatched.
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
		TimeoutSeconds: 30,        // for finding a route; a payment in flight is not given up
		FeeLimitMsat:   1_000_000, // the coins of this network are worthless
	})
	if err != nil {
		return Payment{}, refusal(err)
	}
	for {
		update, err := updates.Recv()
		if err != nil {
			return Payment{}, refusal(err)
		}
		if payment := paymentOf(update); payment.Settled || payment.Failure != "" {
			return payment, nil
		}
	}
}

// refusal is why a node pays nothing, without what gRPC puts around LND's own words, which have the code Unknown.
func refusal(err error) error {
	if answer := status.Convert(err); answer.Code() == codes.Unknown {
		return fmt.Errorf("it does not pay this: %s", answer.Message())
	}
	return fmt.Errorf("pay: %w", err)
}

// Paid is what the node knows of its payment with this hash (hex); nil if it has never tried one. LND keeps one payment
// for each hash: a new try replaces a failed one.
func (n *Node) Paid(ctx context.Context, hash string) (*Payment, error) {
	raw, err := parseHash(hash)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates, err := routerrpc.NewRouterClient(n.connection).TrackPaymentV2(ctx, &routerrpc.TrackPaymentRequest{PaymentHash: raw[:]})
	if err != nil {
		return nil, fmt.Errorf("%s: look up payment %s: %w", n.name, hash, err)
	}
	now, err := updates.Recv() // the first is the present state
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: look up payment %s: %w", n.name, hash, err)
	}
	payment := paymentOf(now)
	return &payment, nil
}

// OursPaid are the payments of the service's nodes with this hash (hex), by the node's name. It fails if one of the
// nodes cannot be asked.
func (n *Network) OursPaid(ctx context.Context, hash string) (map[string]Payment, error) {
	payments := map[string]Payment{}
	for _, node := range n.Ours() {
		payment, err := node.Paid(ctx, hash)
		if err != nil {
			return nil, err
		}
		if payment != nil {
			payments[node.name] = *payment
		}
	}
	return payments, nil
}
