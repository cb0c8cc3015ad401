package graph

import (
	"context"
	"math"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
)

func (m mutations) WalletSave(ctx context.Context, id *int64, label string, settings schema.WalletSettings) (*wallet.Wallet, error) {
	user, err := signedIn(ctx)
	if err == nil {
		err = m.meters.paying(sessionOf(ctx), m.Now()) // testing it calls a stranger's server
	}
	if err != nil {
		return nil, err
	}
	how, err := settingsOf(settings)
	if err != nil {
		return nil, err
	}
	return pointer(m.Wallets.Save(ctx, user, orElse(id, 0), label, how, m.holdKey))
}

// settingsOf returns the one kind of settings that was sent.
func settingsOf(s schema.WalletSettings) (wallet.Settings, error) {
	var sent []wallet.Settings
	if s.LightningAddress != nil {
		sent = append(sent, wallet.LightningAddress{Address: wallet.Secret(*s.LightningAddress)})
	}
	if l := s.LndRest; l != nil {
		sent = append(sent, wallet.LNDREST{URL: l.URL, Macaroon: wallet.Secret(l.Macaroon), Certificate: l.Certificate})
	}
	if l := s.LndGrpc; l != nil {
		sent = append(sent, wallet.LNDGRPC{Address: l.Address, Macaroon: wallet.Secret(l.Macaroon), Certificate: l.Certificate})
	}
	if l := s.Lnbits; l != nil {
		sent = append(sent, wallet.LNbits{URL: l.URL, Key: wallet.Secret(l.Key)})
	}
	if s.Nwc != nil {
		sent = append(sent, wallet.NWC{URI: wallet.Secret(*s.Nwc)})
	}
	if len(sent) != 1 {
		return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "A wallet is of one kind: send the settings of exactly one kind.")
	}
	return sent[0], nil
}

func (m mutations) WalletEnable(ctx context.Context, id int64, enabled bool) (*wallet.Wallet, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	return pointer(inTurn(ctx, m.writing, func() (wallet.Wallet, error) { return m.Wallets.Enable(ctx, user, id, enabled, m.holdKey) }))
}

func (m mutations) WalletRemove(ctx context.Context, id int64) ([]*wallet.Wallet, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	return pointers(inTurn(ctx, m.writing, func() ([]wallet.Wallet, error) {
		if err := m.Wallets.Remove(ctx, user, id, m.holdKey); err != nil {
			return nil, err
		}
		return m.Wallets.List(ctx, user)
	}))
}

func (m mutations) WalletsReorder(ctx context.Context, ids []int64) ([]*wallet.Wallet, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	return pointers(inTurn(ctx, m.writing, func() ([]wallet.Wallet, error) { return m.Wallets.Reorder(ctx, user, ids, m.holdKey) }))
}

func (q queries) Wallets(ctx context.Context) ([]*wallet.Wallet, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	return pointers(inTurn(ctx, q.reading, func() ([]wallet.Wallet, error) { return q.resolver.Wallets.List(ctx, user) }))
}

func pointer[T any](x T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &x, nil
}

func pointers[T any](all []T, err error) ([]*T, error) {
	out := make([]*T, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out, err
}

// Log is resolved only for wallets that were found for their owner.
func (r wallets) Log(ctx context.Context, w *wallet.Wallet, first int, after *int64) (*schema.WalletLogPage, error) {
	if err := r.Limits.checkList(first); err != nil {
		return nil, err
	}
	rows, err := loadersOf(ctx).logs.Load(ctx, pageOf[int64, before]{w.ID, before{orElse(after, math.MaxInt64), int32(first) + 1}})
	if err != nil {
		return nil, err
	}
	page := &schema.WalletLogPage{}
	page.Nodes, page.Next = cut(rows, first, func(e *db.LogsOfWalletsRow) int64 { return e.ID })
	return page, nil
}
