package lndtest

import (
	"encoding/hex"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// The cost of the route to a peer: one hop through an LND with default settings.
const (
	hopFee    = 1000 // msat
	hopBlocks = 80
	padding   = 3 // what LND adds to the final CLTV
)

// Reaches makes payments that are not scripted reach the node behind another server, if they pay its invoices.
func (s *Server) Reaches(peer *Server) { s.set(func() { s.peer = peer.Node }) }

// atPeer is an invoice of the peer. s.mu is held, here and in everything below.
func (s *Server) atPeer(h paidaction.Hash) (simnode.Invoice, bool) {
	if s.peer == nil {
		return simnode.Invoice{}, false
	}
	return s.peer.Inspect(h)
}

// hopExpiry is the height until which a payment of the peer's invoice locks our money.
func (s *Server) hopExpiry(inv simnode.Invoice) uint32 {
	return s.Node.Height() + inv.Request.CLTVDelta + padding + hopBlocks
}

// withinLimits reports whether the hop to the peer respects the limits of a payment.
func (s *Server) withinLimits(inv simnode.Invoice, in *routerrpc.SendPaymentRequest) bool {
	return in.FeeLimitMsat >= hopFee && (in.CltvLimit == 0 || s.Node.Height()+uint32(in.CltvLimit) >= s.hopExpiry(inv))
}

// toPeer pays an invoice of the peer. The payment fails if the limits allow no route, or the peer refuses it.
func (s *Server) toPeer(h paidaction.Hash, in *routerrpc.SendPaymentRequest) (*payment, bool) {
	inv, ok := s.atPeer(h)
	if !ok {
		return nil, false
	}
	number, created := uint64(len(s.payments))+1, time.Now().UnixNano()
	told := func(status lnrpc.Payment_PaymentStatus, reason lnrpc.PaymentFailureReason, preimage string) *lnrpc.Payment {
		return &lnrpc.Payment{PaymentHash: h.String(), ValueMsat: int64(inv.Request.Amount), FeeMsat: hopFee, CreationTimeNs: created,
			PaymentIndex: number, Status: status, FailureReason: reason, PaymentPreimage: preimage}
	}
	if !s.withinLimits(inv, in) {
		return &payment{updates: []*lnrpc.Payment{told(lnrpc.Payment_FAILED, lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE, "")}}, true
	}
	last := told(lnrpc.Payment_SUCCEEDED, lnrpc.PaymentFailureReason_FAILURE_REASON_NONE, hex.EncodeToString(inv.Request.Preimage[:]))
	if s.peer.PayHash(h, simnode.Payment{}) != nil {
		last = told(lnrpc.Payment_FAILED, lnrpc.PaymentFailureReason_FAILURE_REASON_INCORRECT_PAYMENT_DETAILS, "")
	}
	return &payment{begun: told(lnrpc.Payment_IN_FLIGHT, lnrpc.PaymentFailureReason_FAILURE_REASON_NONE, ""), updates: []*lnrpc.Payment{last}}, true
}
