package lndtest

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
	paymentsdb "github.com/lightningnetwork/lnd/payments/db"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// payment is how the server answers for a payment.
type payment struct {
	begun   *lnrpc.Payment // SendPaymentV2 reports it before the updates; tracking begins with its present state. May be nil
	updates []*lnrpc.Payment
	sent    *routerrpc.SendPaymentRequest // nil until SendPaymentV2
}

// routerServer is routerrpc.Router.
type routerServer struct {
	routerrpc.UnimplementedRouterServer
	*Server
}

// Script says what the streams of a payment report, in order, once it is sent; then they end. The hash is filled in. If
// a payment in flight is scripted anew, it reports the new updates to those who track it.
func (s *Server) Script(h paidaction.Hash, updates ...*lnrpc.Payment) {
	for _, u := range updates {
		u.PaymentHash = h.String()
	}
	s.set(func() {
		p := &payment{updates: updates}
		if old, ok := s.payments[h]; ok {
			p.sent = old.sent
		}
		s.payments[h] = p
	})
}

// ScriptPaid makes the payment with this preimage succeed as soon as it is sent.
func (s *Server) ScriptPaid(p paidaction.Preimage, amount, fee paidaction.Msat) {
	s.Script(p.Hash(), &lnrpc.Payment{Status: lnrpc.Payment_SUCCEEDED, ValueMsat: int64(amount), FeeMsat: int64(fee), PaymentPreimage: hex.EncodeToString(p[:])})
}

// ScriptWasPaid is ScriptPaid for a payment that was sent before.
func (s *Server) ScriptWasPaid(p paidaction.Preimage, amount, fee paidaction.Msat) {
	s.ScriptPaid(p, amount, fee)
	s.set(func() { s.payments[p.Hash()].sent = &routerrpc.SendPaymentRequest{} })
}

// ScriptProbe sets the state of a payment that the node itself began, without an invoice.
func (s *Server) ScriptProbe(h paidaction.Hash, stands *lnrpc.Payment) {
	s.Script(h, stands)
	s.set(func() { s.payments[h].sent = &routerrpc.SendPaymentRequest{PaymentHash: h[:]} })
}

// Sent is the request with which the payment was sent; nil if it was not sent.
func (s *Server) Sent(h paidaction.Hash) *routerrpc.SendPaymentRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.payments[h]; ok {
		return p.sent
	}
	return nil
}

// ScriptRoute sets the outcome of a probe for the invoice with this hash; a probe that is in flight stays so.
// Unscripted, there is no route.
func (s *Server) ScriptRoute(h paidaction.Hash, stands *lnrpc.Payment) {
	s.set(func() { s.routes[h] = stands })
}

// ScriptRouteTo is ScriptRoute for every probe to the node with this public key, in hex. It goes before ScriptRoute.
func (s *Server) ScriptRouteTo(key string, stands *lnrpc.Payment) {
	s.set(func() { s.routesTo[key] = stands })
}

// BreakOff ends the stream of every later probe after its first update, as a node does that stops.
func (s *Server) BreakOff() { s.set(func() { s.breaksOff = true }) }

// ComeBack has all probes that are out come back, refused on their ways.
func (s *Server) ComeBack() {
	s.set(func() {
		for _, p := range s.payments {
			if last := len(p.updates) - 1; last >= 0 && p.sent.GetPaymentRequest() == "" && p.updates[last].Status == lnrpc.Payment_IN_FLIGHT {
				p.updates = []*lnrpc.Payment{noRoute(p.updates[last].PaymentHash)}
			}
		}
		close(s.back)
		s.back = make(chan struct{})
	})
}

// noRoute is a payment for which no route was found.
func noRoute(hash string) *lnrpc.Payment {
	return &lnrpc.Payment{PaymentHash: hash, Status: lnrpc.Payment_FAILED, FailureReason: lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE}
}

// Arrived is a probe that its receiver has refused, with its route.
func Arrived(fee paidaction.Msat, height uint32) *lnrpc.Payment {
	return &lnrpc.Payment{Status: lnrpc.Payment_FAILED, FailureReason: lnrpc.PaymentFailureReason_FAILURE_REASON_INCORRECT_PAYMENT_DETAILS,
		Htlcs: []*lnrpc.HTLCAttempt{{Status: lnrpc.HTLCAttempt_FAILED, Failure: &lnrpc.Failure{FailureSourceIndex: 2},
			Route: &lnrpc.Route{TotalFeesMsat: int64(fee), TotalTimeLock: height, Hops: []*lnrpc.Hop{{}, {}}}}}}
}

// Probes are the probes that were sent, in order.
func (s *Server) Probes() []*routerrpc.SendPaymentRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.probes)
}

// probe sends a payment without an invoice. The payment secret tells which invoice it is for, if that was decoded here.
func (s *routerServer) probe(in *routerrpc.SendPaymentRequest, out routerrpc.Router_SendPaymentV2Server) error {
	addr, err := bytes32(in.PaymentAddr)
	if err != nil {
		return err
	}
	hash, err := bytes32(in.PaymentHash)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if p, ok := s.payments[hash]; ok && p.updates[len(p.updates)-1].Status != lnrpc.Payment_FAILED {
		s.mu.Unlock()
		return status.Error(codes.AlreadyExists, paymentsdb.ErrPaymentInFlight.Error())
	}
	s.probes = append(s.probes, in)
	stands, over, back := proto.CloneOf(s.standing(s.decoded[addr], in)), s.breaksOff, s.back
	stands.PaymentHash = hex.EncodeToString(in.PaymentHash)
	s.payments[hash] = &payment{updates: []*lnrpc.Payment{stands}, sent: in}
	s.mu.Unlock()
	if err := out.Send(stands); err != nil || over || stands.Status == lnrpc.Payment_FAILED {
		return err
	}
	select {
	case <-out.Context().Done():
		return answer(out.Context().Err())
	case <-back:
	}
	return out.Send(noRoute(stands.PaymentHash))
}

// standing is the state of a probe for an invoice. s.mu is held.
func (s *routerServer) standing(h paidaction.Hash, in *routerrpc.SendPaymentRequest) *lnrpc.Payment {
	if stands, ok := s.routesTo[hex.EncodeToString(in.Dest)]; ok {
		return stands
	}
	if stands, ok := s.routes[h]; ok {
		return stands
	}
	if inv, ok := s.atPeer(h); ok && s.withinLimits(inv, in) {
		return Arrived(hopFee, s.hopExpiry(inv))
	}
	return noRoute("")
}

func (s *routerServer) SendPaymentV2(in *routerrpc.SendPaymentRequest, out routerrpc.Router_SendPaymentV2Server) error {
	if in.PaymentRequest == "" {
		return s.probe(in, out)
	}
	decoded, err := decode(in.PaymentRequest)
	if err != nil {
		return err
	}
	s.mu.Lock()
	now := s.clock()
	s.mu.Unlock()
	if validUntil := decoded.Timestamp.Add(decoded.Expiry()); now.After(validUntil) {
		return fmt.Errorf("invoice expired. Valid until %v", validUntil)
	}
	updates, err := s.send(*decoded.PaymentHash, in)
	if err != nil {
		return err
	}
	return stream(updates, out.Send)
}

func (s *routerServer) TrackPaymentV2(in *routerrpc.TrackPaymentRequest, out routerrpc.Router_TrackPaymentV2Server) error {
	hash, err := bytes32(in.PaymentHash)
	if err != nil {
		return err
	}
	s.mu.Lock()
	p, ok := s.payments[hash]
	mute := s.mute
	s.mu.Unlock()
	if mute != nil {
		select {
		case mute.asked <- struct{}{}:
		case <-out.Context().Done():
		}
		select {
		case <-mute.over:
		case <-out.Context().Done(): // the caller's deadline, which may come a moment earlier here: that must not be an answer
			return status.FromContextError(out.Context().Err()).Err()
		}
	}
	if !ok || p.sent == nil {
		return status.Error(codes.NotFound, paymentsdb.ErrPaymentNotInitiated.Error())
	}
	return stream(p.updates, out.Send)
}

// mute is a time during which the node says nothing about payments.
type mute struct{ asked, over chan struct{} }

// Mute makes the node accept questions about payments and not answer them until speak is called. asked tells of each
// question.
func (s *Server) Mute() (asked <-chan struct{}, speak func()) {
	m := &mute{make(chan struct{}), make(chan struct{})}
	s.set(func() { s.mute = m })
	return m.asked, func() {
		s.set(func() { s.mute = nil })
		close(m.over)
	}
}

// Bulk makes every invoice, and every payment in a list, larger by so many bytes: what payers sent beside parts that
// went back, and attempts that failed.
func (s *Server) Bulk(bytes int) { s.set(func() { s.bulk = bytes }) }

// BulkOf is Bulk for one invoice.
func (s *Server) BulkOf(h paidaction.Hash, bytes int) { s.set(func() { s.bulks[h] = bytes }) }

// ListPayments shows the last update of every payment that was sent, in pages; of those that have not succeeded only
// where they are asked for. The order is that of the hashes, not LND's.
func (s *mainServer) ListPayments(_ context.Context, in *lnrpc.ListPaymentsRequest) (*lnrpc.ListPaymentsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*lnrpc.Payment
	for _, p := range s.payments {
		if p.sent != nil && len(p.updates) > 0 {
			last := proto.CloneOf(p.updates[len(p.updates)-1])
			last.PaymentRequest = p.sent.PaymentRequest
			if s.bulk > 0 {
				last.Htlcs = append(last.Htlcs, &lnrpc.HTLCAttempt{Status: lnrpc.HTLCAttempt_FAILED, Preimage: make([]byte, s.bulk)})
			}
			if in.IncludeIncomplete || last.Status == lnrpc.Payment_SUCCEEDED {
				all = append(all, last)
			}
		}
	}
	slices.SortFunc(all, func(a, b *lnrpc.Payment) int { return cmp.Compare(a.PaymentHash, b.PaymentHash) })
	all = all[min(in.IndexOffset, uint64(len(all))):]
	all = all[:min(in.MaxPayments, uint64(len(all)))]
	return &lnrpc.ListPaymentsResponse{Payments: all, LastIndexOffset: in.IndexOffset + uint64(len(all))}, nil
}

func (s *Server) send(h paidaction.Hash, in *routerrpc.SendPaymentRequest) ([]*lnrpc.Payment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.payments[h]
	if !ok {
		if p, ok = s.toPeer(h, in); !ok {
			return nil, fmt.Errorf("no script for payment %s", h)
		}
		s.payments[h] = p
	}
	if p.sent != nil {
		return nil, status.Error(codes.AlreadyExists, paymentsdb.ErrPaymentExists.Error())
	}
	p.sent = in
	if p.begun != nil {
		return append([]*lnrpc.Payment{p.begun}, p.updates...), nil
	}
	return p.updates, nil
}

func stream(updates []*lnrpc.Payment, send func(*lnrpc.Payment) error) error {
	for _, u := range updates {
		if err := send(u); err != nil {
			return err
		}
	}
	return nil
}
