package devnet_test

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
)

// wallets are what a receiver can save: their LND with either of its protocols and a macaroon that only permits issuing
// invoices, and their lightning address. Our node reads what they issue, and pays it.
func wallets(t *testing.T, c *lightning.Client, network *devnet.Network) {
	ctx, receiver, pool := t.Context(), network.Node(devnet.Receiver), pgtest.New(t)
	certificate, err := os.ReadFile(receiver.TLSCert())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(receiver.InvoiceMacaroon())
	if err != nil {
		t.Fatal(err)
	}
	macaroon := wallet.Secret(hex.EncodeToString(raw))
	w, err := wallet.New(wallet.Config{Pool: pool, Secret: make([]byte, 32), Outside: outside.New(outside.Config{AllowPrivate: true}),
		Decode: c.DecodeInvoice,
		AddInvoice: func(ctx context.Context, at wallet.LNDGRPC, r wallet.Request, dial wallet.Dial) (string, error) {
			return lightning.IssueInvoice(ctx, lightning.Receiver{Address: at.Address, MacaroonHex: string(at.Macaroon),
				TLSCertPEM: []byte(at.Certificate), Dialer: dial}, r.Amount, r.Memo, r.Expiry)
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { network.ReceiverAnswers(devnet.Honest) })
	address := wallet.LightningAddress{Address: wallet.Secret(network.LightningAddress())}
	const asked = 12_345
	for name, x := range map[string]struct {
		settings wallet.Settings
		manner   devnet.Manner
		amount   paidaction.Msat
	}{
		"rest":        {wallet.LNDREST{URL: "https://" + receiver.REST(), Macaroon: macaroon, Certificate: string(certificate)}, devnet.Honest, asked},
		"grpc":        {wallet.LNDGRPC{Address: receiver.Address(), Macaroon: macaroon, Certificate: string(certificate)}, devnet.Honest, asked},
		"address":     {address, devnet.Honest, asked},
		"address_cut": {address, devnet.WholeSats, 12_000},
	} {
		network.ReceiverAnswers(x.manner)
		user, err := db.New(pool).InsertUser(ctx, db.InsertUserParams{Name: name, CreatedAt: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Save(ctx, user, 0, name, x.settings, nil); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err = w.Each(ctx, user, 0, asked, "memo", func(_ int64, bolt11 string) error {
			read, err := c.DecodeInvoice(ctx, bolt11)
			if err != nil || read.Amount != x.amount || read.Destination != receiver.Pubkey() {
				t.Errorf("%s issued %+v, error %v", name, read, err)
			}
			payment, err := network.Node(devnet.Holdfast).Pay(ctx, bolt11)
			if err != nil || !payment.Settled || payment.AmountMsat != int64(x.amount) {
				t.Errorf("%s was paid %+v, error %v", name, payment, err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	network.ReceiverAnswers(devnet.Refusing)
	user, err := db.New(pool).InsertUser(ctx, db.InsertUserParams{Name: "refused", CreatedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Save(ctx, user, 0, "", address, nil); !errors.Is(err, paidaction.Refused(wallet.CodeDeclined)) {
		t.Errorf("an address that refuses: %v", err)
	}
}
