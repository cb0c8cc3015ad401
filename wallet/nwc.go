package wallet

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet/internal/nostr"
)

// NWC is a wallet that is reached over a Nostr relay (NIP-47).
type NWC struct {
	URI Secret `json:"uri"` // nostr+walletconnect://…; permission to make invoices suffices
}

// Kind is NWC.
func (NWC) Kind() Kind { return KindNWC }

func (s NWC) tidied(w *Wallets) (Settings, error) {
	s.URI = Secret(strings.TrimSpace(string(s.URI)))
	c, err := nostr.ParseConnection(string(s.URI))
	if err != nil {
		return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "This is not a Nostr Wallet Connect connection: one begins with nostr+walletconnect:// and contains a relay and a secret.")
	}
	for _, relay := range c.Relays {
		u, err := w.Outside.Parse(relay)
		if errors.Is(err, outside.ErrOwn) {
			return nil, errOwn
		}
		if err != nil || !slices.Contains([]string{"wss", "ws"}, u.Scheme) {
			return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "The connection's relay must begin with wss:// and contain no user name.")
		}
	}
	return s, nil
}

// issue asks through the first relay that can be reached and forwards the request. One that forwards it has the rest of
// the time: a wallet may be slow.
func (s NWC) issue(ctx context.Context, w *Wallets, r Request) (invoice, error) {
	c, err := nostr.ParseConnection(string(s.URI))
	if err != nil {
		return invoice{}, errBadAnswer
	}
	var result json.RawMessage
	until, _ := ctx.Deadline() // of one call
	for i, relay := range c.Relays {
		// One that hangs leaves their share of the time to those after it.
		opening, cancel := context.WithTimeout(ctx, time.Until(until)/time.Duration(len(c.Relays)-i))
		var socket *outside.Socket
		socket, err = w.Outside.Websocket(opening, relay)
		cancel()
		if err != nil {
			continue
		}
		result, err = c.Ask(ctx, socket, "make_invoice", map[string]any{
			"amount": int64(r.Amount), "description": r.Memo, "expiry": int64(r.Expiry.Seconds()),
		}, w.Now())
		socket.Close()
		if !errors.Is(err, nostr.ErrRefused) && !errors.Is(err, outside.ErrUnreachable) {
			break
		}
	}
	if err != nil {
		return invoice{}, err
	}
	var made struct {
		Invoice string `json:"invoice"`
	}
	if json.Unmarshal(result, &made) != nil {
		return invoice{}, errBadAnswer
	}
	return invoice{made.Invoice, r.Amount}, nil
}
