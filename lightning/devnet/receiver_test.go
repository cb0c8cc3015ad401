package devnet_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// receiverTests show what the receiver's wallets can rely on.
func receiverTests(t *testing.T, network *devnet.Network) {
	t.Run("the lightning address", func(t *testing.T) { lightningAddress(t, network) })
	t.Run("the invoice macaroon", func(t *testing.T) { invoiceMacaroon(t, network) })
	t.Run("the receiver holds", func(t *testing.T) { receiverHolds(t, network) })
}

// get asks an LNURL server.
func get(t *testing.T, url string) (answer struct {
	Tag, Callback, Metadata, PR, Status, Reason string
	MinSendable, MaxSendable                    int64
}) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// ask asks a lightning address for an invoice and decodes it.
func ask(t *testing.T, network *devnet.Network, msat int64) (bolt11 string, decoded *lnrpc.PayReq) {
	t.Helper()
	name, host, _ := strings.Cut(network.LightningAddress(), "@")
	terms := get(t, "http://"+host+"/.well-known/lnurlp/"+name)
	if terms.Tag != "payRequest" || terms.MinSendable != devnet.MinSendable || terms.MaxSendable != devnet.MaxSendable {
		t.Fatalf("terms: %+v", terms)
	}
	answer := get(t, fmt.Sprintf("%s?amount=%d", terms.Callback, msat))
	if answer.Status == "ERROR" {
		t.Fatal(answer.Reason)
	}
	return answer.PR, decode(t, network, answer.PR, terms.Metadata)
}

// decode decodes an invoice, which must commit to the metadata.
func decode(t *testing.T, network *devnet.Network, bolt11, metadata string) *lnrpc.PayReq {
	t.Helper()
	decoded, err := lnrpc.NewLightningClient(network.Node(devnet.Payer).Conn()).DecodePayReq(t.Context(), &lnrpc.PayReqString{PayReq: bolt11})
	if err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256([]byte(metadata)); decoded.DescriptionHash != hex.EncodeToString(want[:]) {
		t.Errorf("the invoice commits to %s, not to the metadata", decoded.DescriptionHash)
	}
	return decoded
}

func lightningAddress(t *testing.T, network *devnet.Network) {
	ctx, receiver := t.Context(), network.Node(devnet.Receiver)
	const msat = 123_457
	bolt11, invoice := ask(t, network, msat)
	if invoice.NumMsat != msat || invoice.Destination != receiver.Pubkey() {
		t.Errorf("an invoice of %d msat to %s", invoice.NumMsat, invoice.Destination)
	}
	payment, err := network.Node(devnet.Holdfast2).Pay(ctx, bolt11)
	if err != nil || !payment.Settled {
		t.Fatalf("%+v, %v", payment, err)
	}
	if got, err := receiver.Issued(ctx, invoice.PaymentHash); err != nil || got != (devnet.Invoice{State: "SETTLED", Msat: msat, PaidMsat: msat}) {
		t.Errorf("%+v, %v", got, err)
	}
	paid, err := network.OursPaid(ctx, invoice.PaymentHash)
	if err != nil || len(paid) != 1 || paid[devnet.Holdfast2] != payment {
		t.Errorf("our nodes' payments: %+v, %v", paid, err)
	}

	t.Cleanup(func() { network.ReceiverAnswers(devnet.Honest) })
	network.ReceiverAnswers(devnet.WholeSats)
	if _, invoice := ask(t, network, msat); invoice.NumMsat != 123_000 {
		t.Errorf("in whole sats: %d msat", invoice.NumMsat)
	}
	network.ReceiverAnswers(devnet.Refusing)
	name, host, _ := strings.Cut(network.LightningAddress(), "@")
	for _, bad := range []string{
		get(t, "http://"+host+"/.well-known/lnurlp/"+name).Callback + "?amount=1000", // told to refuse
		get(t, "http://"+host+"/.well-known/lnurlp/"+name).Callback + "?amount=0",
		get(t, "http://"+host+"/.well-known/lnurlp/"+name).Callback + "?amount=1000000001",
		"http://" + host + "/.well-known/lnurlp/somebody",
	} {
		if answer := get(t, bad); answer.Status != "ERROR" || answer.Reason == "" {
			t.Errorf("%s answers %+v", bad, answer)
		}
	}
}

// The macaroon for wallets issues invoices over REST, but can neither pay nor see the node's funds.
func invoiceMacaroon(t *testing.T, network *devnet.Network) {
	receiver := network.Node(devnet.Receiver)
	certificate, err := os.ReadFile(receiver.TLSCert())
	if err != nil {
		t.Fatal(err)
	}
	macaroon, err := os.ReadFile(receiver.InvoiceMacaroon())
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}
	defer transport.CloseIdleConnections()
	call := func(method, path, body string) (answer struct {
		PaymentRequest string `json:"payment_request"`
	}, status int) {
		request, err := http.NewRequestWithContext(t.Context(), method, "https://"+receiver.REST()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Grpc-Metadata-macaroon", hex.EncodeToString(macaroon))
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return answer, response.StatusCode
	}
	invoice, status := call(http.MethodPost, "/v1/invoices", `{"value_msat": "1001"}`)
	if status != http.StatusOK {
		t.Fatalf("issuing: status %d", status)
	}
	payment, err := network.Node(devnet.Holdfast).Pay(t.Context(), invoice.PaymentRequest)
	if err != nil || !payment.Settled || payment.AmountMsat != 1001 {
		t.Errorf("%+v, %v", payment, err)
	}
	for _, path := range []string{"/v1/balance/channels", "/v1/payments"} {
		if _, status := call(http.MethodGet, path, ""); status == http.StatusOK {
			t.Errorf("it permits %s", path)
		}
	}
}

// receiverHolds: the receiver holds a payment for a while, and then takes it or gives it back.
func receiverHolds(t *testing.T, network *devnet.Network) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	receiver := network.Node(devnet.Receiver)
	network.ReceiverAnswers(devnet.Holding)
	t.Cleanup(func() { network.ReceiverAnswers(devnet.Honest) })
	for _, ours := range network.Ours() {
		for _, settles := range []bool{true, false} {
			bolt11, invoice := ask(t, network, 97_531)
			outcome := make(chan devnet.Payment, 1)
			go func() {
				payment, err := ours.Pay(ctx, bolt11)
				if err != nil {
					t.Error(err)
				}
				outcome <- payment
			}()
			if err := receiver.AwaitHeld(ctx, invoice.PaymentHash); err != nil {
				t.Fatal(err)
			}
			under, err := network.OursPaid(ctx, invoice.PaymentHash)
			if p := under[ours.Name()]; err != nil || len(under) != 1 || p.Settled || p.Failure != "" {
				t.Errorf("while the receiver holds it: %+v, %v", under, err)
			}
			decide := receiver.Cancel
			if settles {
				decide = receiver.Settle
			}
			if err := decide(ctx, invoice.PaymentHash); err != nil {
				t.Fatal(err)
			}
			payment := <-outcome
			if payment.Settled != settles || settles && payment.FeeMsat != 250+97 || !settles && payment.Failure == "" {
				t.Errorf("%s paid the receiver: %+v", ours.Name(), payment)
			}
			want := devnet.Invoice{State: "CANCELED", Msat: 97_531}
			if settles {
				want.State, want.PaidMsat = "SETTLED", 97_531
			}
			if got, err := receiver.Issued(ctx, invoice.PaymentHash); err != nil || got != want {
				t.Errorf("the receiver's invoice: %+v, %v", got, err)
			}
		}
	}
}
