package main

import (
	"context"
	"errors"

	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
)

// newWallets makes the receivers' wallets. In development they may be on this machine.
func (s *service) newWallets() (*wallet.Wallets, error) {
	return wallet.New(wallet.Config{
		Pool: s.pool, Secret: s.config.Key(), Outside: outside.New(outside.Config{AllowPrivate: s.config.Development, Own: s.config.PublicURL.URL()}),
		Decode: s.decode, AddInvoice: addInvoice, Limits: wallet.Limits{Pending: s.config.Relay.MaxPending}, Log: s.log,
	})
}

// decode has the first node of ours read a bolt11 that can: one that only receives needs no permission for that.
func (s *service) decode(ctx context.Context, bolt11 string) (paidaction.Bolt11, error) {
	for _, client := range s.clients {
		read, err := client.DecodeInvoice(ctx, bolt11)
		if err == nil || !errors.Is(err, lightning.ErrUnreachable) && !errors.Is(err, lightning.ErrNotPermitted) {
			return read, err
		}
	}
	return paidaction.Bolt11{}, paidaction.Errorf(paidaction.CodeLightningUnavailable,
		"None of our Lightning nodes can read the wallet's invoice now. Try again later.")
}

// addInvoice has a receiver's LND issue an invoice by gRPC.
func addInvoice(ctx context.Context, at wallet.LNDGRPC, r wallet.Request, dial wallet.Dial) (string, error) {
	bolt11, err := lightning.IssueInvoice(ctx, lightning.Receiver{
		Address: at.Address, MacaroonHex: string(at.Macaroon), TLSCertPEM: []byte(at.Certificate), Dialer: dial,
	}, r.Amount, r.Memo, r.Expiry)
	switch {
	case errors.Is(err, lightning.ErrNotPermitted):
		return "", wallet.ErrKeyRefused
	case errors.Is(err, lightning.ErrUntrusted): // it is unreachable too
		return "", wallet.ErrCertificate
	case errors.Is(err, lightning.ErrUnreachable):
		return "", wallet.ErrUnreachable
	}
	return bolt11, err
}
