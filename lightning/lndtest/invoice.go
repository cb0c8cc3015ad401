package lndtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightningnetwork/lnd/invoices"
	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/record"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// mainServer is lnrpc.Lightning.
type mainServer struct {
	lnrpc.UnimplementedLightningServer
	*Server
}

// invoicesServer is invoicesrpc.Invoices.
type invoicesServer struct {
	invoicesrpc.UnimplementedInvoicesServer
	*Server
}

// bytes32 reads a hash or preimage as LND's lntypes do.
func bytes32(raw []byte) (b [32]byte, err error) {
	if len(raw) != len(b) {
		return b, fmt.Errorf("invalid hash length of %v, want %v", len(raw), len(b))
	}
	copy(b[:], raw)
	return b, nil
}

// descriptionHash reads an optional hash, as LND does.
func descriptionHash(raw []byte) (b [32]byte, err error) {
	if len(raw) == 0 {
		return b, nil
	}
	return bytes32(raw)
}

// AddInvoice draws a preimage if none is given, as LND does.
func (s *mainServer) AddInvoice(ctx context.Context, in *lnrpc.Invoice) (*lnrpc.AddInvoiceResponse, error) {
	if len(in.RPreimage) == 0 {
		in.RPreimage = make([]byte, 32)
		if _, err := rand.Read(in.RPreimage); err != nil {
			return nil, err
		}
	}
	preimage, err := bytes32(in.RPreimage)
	if err != nil {
		return nil, err
	}
	description, err := descriptionHash(in.DescriptionHash)
	if err != nil {
		return nil, err
	}
	added, err := s.Node.Add(ctx, paidaction.InvoiceRequest{
		DescriptionHash: description, Preimage: preimage, Hash: sha256.Sum256(preimage[:]), Amount: paidaction.Msat(in.ValueMsat), Memo: in.Memo,
		Expiry: time.Duration(in.Expiry) * time.Second, CLTVDelta: uint32(in.CltvExpiry),
	})
	if err != nil {
		return nil, answer(err)
	}
	return &lnrpc.AddInvoiceResponse{
		RHash: added.Request.Hash[:], PaymentRequest: added.Bolt11, AddIndex: added.AddIndex,
	}, nil
}

func (s *invoicesServer) AddHoldInvoice(
	ctx context.Context, in *invoicesrpc.AddHoldInvoiceRequest,
) (*invoicesrpc.AddHoldInvoiceResp, error) {
	hash, err := bytes32(in.Hash)
	if err != nil {
		return nil, err
	}
	description, err := descriptionHash(in.DescriptionHash)
	if err != nil {
		return nil, err
	}
	added, err := s.Node.Add(ctx, paidaction.InvoiceRequest{
		DescriptionHash: description, Hold: true, Hash: hash, Amount: paidaction.Msat(in.ValueMsat), Memo: in.Memo,
		Expiry: time.Duration(in.Expiry) * time.Second, CLTVDelta: uint32(in.CltvExpiry),
	})
	if err != nil {
		return nil, answer(err)
	}
	return &invoicesrpc.AddHoldInvoiceResp{PaymentRequest: added.Bolt11, AddIndex: added.AddIndex}, nil
}

func (s *mainServer) LookupInvoice(ctx context.Context, in *lnrpc.PaymentHash) (*lnrpc.Invoice, error) {
	hash, err := bytes32(in.RHash)
	if err != nil {
		return nil, err
	}
	found, err := s.Node.Lookup(ctx, hash)
	if errors.Is(err, paidaction.ErrInvoiceNotFound) {
		return nil, status.Error(codes.NotFound, invoices.ErrInvoiceNotFound.Error())
	}
	if err != nil {
		return nil, answer(err)
	}
	return s.show(found), nil
}

// ListInvoices shows every invoice since a moment in the order in which they were added, in pages that end at an index.
func (s *mainServer) ListInvoices(_ context.Context, in *lnrpc.ListInvoiceRequest) (*lnrpc.ListInvoiceResponse, error) {
	page := &lnrpc.ListInvoiceResponse{}
	for _, inv := range s.Node.Invoices() {
		if inv.AddIndex <= in.IndexOffset || unix(inv.Created) < int64(in.CreationDateStart) || uint64(len(page.Invoices)) == in.NumMaxInvoices {
			continue
		}
		page.Invoices = append(page.Invoices, s.show(inv))
		page.LastIndexOffset = inv.AddIndex
	}
	return page, nil
}

// SettleInvoice succeeds on an invoice that was settled before, as LND's does.
func (s *invoicesServer) SettleInvoice(ctx context.Context, in *invoicesrpc.SettleInvoiceMsg) (*invoicesrpc.SettleInvoiceResp, error) {
	preimage, err := bytes32(in.Preimage)
	if err != nil {
		return nil, err
	}
	if err := s.Node.Settle(ctx, preimage); err != nil && !errors.Is(err, simnode.ErrAlreadySettled) {
		return nil, answer(err)
	}
	return &invoicesrpc.SettleInvoiceResp{}, nil
}

// CancelInvoice fails on an invoice that was settled before, as LND's does.
func (s *invoicesServer) CancelInvoice(ctx context.Context, in *invoicesrpc.CancelInvoiceMsg) (*invoicesrpc.CancelInvoiceResp, error) {
	hash, err := bytes32(in.PaymentHash)
	if err != nil {
		return nil, err
	}
	if err := s.Node.Cancel(ctx, hash); err != nil {
		return nil, answer(err)
	}
	return &invoicesrpc.CancelInvoiceResp{}, nil
}

func (s *mainServer) SubscribeInvoices(in *lnrpc.InvoiceSubscription, out lnrpc.Lightning_SubscribeInvoicesServer) error {
	return answer(s.Node.WatchInvoices(out.Context(), in.AddIndex, in.SettleIndex, s.sender(out.Send)))
}

func (s *invoicesServer) SubscribeSingleInvoice(
	in *invoicesrpc.SubscribeSingleInvoiceRequest, out invoicesrpc.Invoices_SubscribeSingleInvoiceServer,
) error {
	hash, err := bytes32(in.RHash)
	if err != nil {
		return err
	}
	return answer(s.Node.WatchInvoice(out.Context(), hash, s.sender(out.Send)))
}

// sender sends an event's invoice in the state of the event, because LND queues whole invoices.
func (s *Server) sender(send func(*lnrpc.Invoice) error) func(paidaction.InvoiceEvent) error {
	return func(e paidaction.InvoiceEvent) error {
		inv, ok := s.Node.Inspect(e.Hash)
		if !ok {
			return nil // it was wiped meanwhile
		}
		m := s.show(inv)
		state := inv
		state.State = e.State
		m.State, m.SettleIndex = rpcState(state), e.SettleIndex
		return send(m)
	}
}

// show is an invoice with its bulk, or as what came without one.
func (s *Server) show(inv simnode.Invoice) *lnrpc.Invoice {
	s.mu.Lock()
	bulk, unasked := max(s.bulk, s.bulks[inv.Request.Hash]), s.unasked[inv.Request.Hash]
	s.mu.Unlock()
	m := rpcInvoice(inv)
	switch unasked {
	case byAMP:
		m.RHash, m.RPreimage, m.PaymentRequest, m.IsAmp = nil, nil, "", true
	case byKeysend:
		m.PaymentRequest, m.IsKeysend = "", true
	}
	if bulk > 0 {
		m.Htlcs = append(m.Htlcs, &lnrpc.InvoiceHTLC{State: lnrpc.InvoiceHTLCState_CANCELED, CustomRecords: map[uint64][]byte{1 << 16: make([]byte, bulk)}})
	}
	return m
}

func rpcInvoice(inv simnode.Invoice) *lnrpc.Invoice {
	addr := paymentAddr(inv.Request.Hash)
	m := &lnrpc.Invoice{
		Memo: inv.Request.Memo, RHash: inv.Request.Hash[:], State: rpcState(inv),
		Value: inv.Request.Amount.Sats(), ValueMsat: int64(inv.Request.Amount),
		CreationDate: unix(inv.Created), SettleDate: unix(inv.Settled), Expiry: int64(inv.Request.Expiry.Seconds()),
		CltvExpiry: uint64(inv.Request.CLTVDelta), PaymentRequest: inv.Bolt11, PaymentAddr: addr[:],
		AddIndex: inv.AddIndex, SettleIndex: inv.SettleIndex,
	}
	if !inv.Request.Preimage.IsZero() {
		m.RPreimage = inv.Request.Preimage[:]
	}
	for _, p := range inv.Parts {
		var custom map[uint64][]byte
		if p.Total == 0 {
			custom = map[uint64][]byte{uint64(record.KeySendType): make([]byte, 32)}
		}
		m.Htlcs = append(m.Htlcs, &lnrpc.InvoiceHTLC{
			CustomRecords: custom, ChanId: 1, HtlcIndex: uint64(p.ID), AmtMsat: uint64(p.Msat), MppTotalAmtMsat: uint64(p.Total),
			ExpiryHeight: int32(p.ExpiryHeight), AcceptHeight: int32(p.AcceptHeight), State: partStates[p.State],
		})
		// LND keeps amt_paid_msat when it cancels a held invoice. Here it counts every part there ever was, so that a
		// client that believes it books money that went back.
		if inv.State != paidaction.InvoiceOpen {
			m.AmtPaidMsat += int64(p.Msat)
		}
	}
	return m
}

var partStates = map[simnode.PartState]lnrpc.InvoiceHTLCState{
	simnode.PartAccepted: lnrpc.InvoiceHTLCState_ACCEPTED,
	simnode.PartSettled:  lnrpc.InvoiceHTLCState_SETTLED,
	simnode.PartCanceled: lnrpc.InvoiceHTLCState_CANCELED,
}

func rpcState(inv simnode.Invoice) lnrpc.Invoice_InvoiceState {
	switch inv.State {
	case paidaction.InvoiceAccepted:
		return lnrpc.Invoice_ACCEPTED
	case paidaction.InvoiceSettled:
		return lnrpc.Invoice_SETTLED
	case paidaction.InvoiceCanceled:
		return lnrpc.Invoice_CANCELED
	}
	return lnrpc.Invoice_OPEN
}
