package wallet

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Settings say how a wallet is reached and opened: LightningAddress, LNDREST, LNDGRPC, LNbits or NWC.
type Settings interface {
	Kind() Kind
	// tidied returns the settings without stray characters from pasting, or INVALID_INPUT.
	tidied(w *Wallets) (Settings, error)
	// issue gets an invoice. explain knows its errors.
	issue(ctx context.Context, w *Wallets, r Request) (invoice, error)
}

// invoice is what a wallet issued.
type invoice struct {
	bolt11 string
	asked  paidaction.Msat // what it was asked for
}

// Secret is text that must not be seen. Printing it shows nothing of it; only JSON contains it, and that is encrypted.
type Secret string

// String says only whether there is a secret.
func (s Secret) String() string {
	if s == "" {
		return "(none)"
	}
	return "(secret)"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

func (w *Wallets) sealSettings(p place, s Settings) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, errors.New("wallet: the settings cannot be written")
	}
	return w.sealer.Seal(p.bytes(), text), nil
}

func (w *Wallets) openSettings(p place, sealed []byte) (Settings, error) {
	text, err := w.sealer.Open(p.bytes(), sealed)
	if err != nil {
		return nil, errSealed
	}
	switch p.kind {
	case KindLightningAddress:
		return read[LightningAddress](text)
	case KindLNDREST:
		return read[LNDREST](text)
	case KindLNDGRPC:
		return read[LNDGRPC](text)
	case KindLNbits:
		return read[LNbits](text)
	case KindNWC:
		return read[NWC](text)
	}
	return nil, errSealed
}

func read[S Settings](text []byte) (Settings, error) {
	var s S
	if json.Unmarshal(text, &s) != nil { // its error could quote the text
		return nil, errSealed
	}
	return s, nil
}
