package stack

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// demoWallet pays, from the payer's node, what the service's page asks for: POST / with {"bolt11": "…"}, on loopback.
// The coins of this network are worthless.
type demoWallet struct {
	payer  *devnet.Node
	server *http.Server
	url    string
}

func startDemoWallet(payer *devnet.Node) (*demoWallet, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo wallet: %w", err)
	}
	w := &demoWallet{payer: payer, url: "http://" + listener.Addr().String()}
	w.server = &http.Server{Handler: http.HandlerFunc(w.pay), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = w.server.Serve(listener) }() // ends with Close
	return w, nil
}

func (w *demoWallet) stop() { _ = w.server.Close() }

// pay answers when the payment has ended: 200 if it succeeded, else 502 with the reason. While the payment is held the
// caller waits.
func (w *demoWallet) pay(answer http.ResponseWriter, r *http.Request) {
	var asked struct{ Bolt11 string }
	if json.NewDecoder(r.Body).Decode(&asked) != nil || r.Method != http.MethodPost {
		http.Error(answer, `Send {"bolt11": "…"} by POST.`, http.StatusBadRequest)
		return
	}
	payment, err := w.payer.Pay(r.Context(), asked.Bolt11)
	switch {
	case err != nil:
		http.Error(answer, err.Error(), http.StatusBadGateway)
	case !payment.Settled:
		http.Error(answer, payment.Failure, http.StatusBadGateway)
	}
}
