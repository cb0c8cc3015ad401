package devnet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Manner is how the receiver's lightning address answers a request for an invoice.
type Manner int32

const (
	Honest    Manner = iota // an invoice of exactly the amount
	Holding                 // a hold invoice of the amount: see [Node.Settle] and [Node.Cancel]
	WholeSats               // an invoice of the amount, rounded down to whole sats
	Refusing                // an error
)

// The least and the most that the receiver's lightning address accepts, in msat. Both are outside of what Holdfast
// forwards.
const (
	MinSendable = 1
	MaxSendable = 1_000_000_000
)

// lnurl is a server of LNURL-pay (LUD-06, LUD-16) for one lightning address, whose invoices a node issues. It speaks
// plain HTTP, on loopback.
type lnurl struct {
	node   *Node
	manner atomic.Int32
	server *http.Server
}

func newLNURL(node *Node, address string) *lnurl {
	l := &lnurl{node: node}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /.well-known/lnurlp/"+node.name, l.terms)
	routes.HandleFunc("GET /lnurlp/"+node.name+"/invoice", l.invoice)
	// In LNURL the answer's body reports every failure.
	routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, fmt.Errorf("only %s has an address here", node.name))
	})
	l.server = &http.Server{Addr: address, Handler: routes, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 20 * time.Second}
	return l
}

// address is the lightning address.
func (l *lnurl) address() string { return l.node.name + "@" + l.server.Addr }

func (l *lnurl) start() error {
	listener, err := net.Listen("tcp", l.server.Addr)
	if err != nil {
		return fmt.Errorf("lightning address: %w", err)
	}
	go func() { _ = l.server.Serve(listener) }() // ends with Close
	return nil
}

func (l *lnurl) stop() { _ = l.server.Close() }

// metadata describes the address to wallets. Every invoice commits to it.
func (l *lnurl) metadata() string {
	text, _ := json.Marshal([][2]string{ // strings always encode
		{"text/plain", "To the receiver of the development network"},
		{"text/identifier", l.address()},
	})
	return string(text)
}

func (l *lnurl) terms(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"tag": "payRequest", "callback": "http://" + l.server.Addr + "/lnurlp/" + l.node.name + "/invoice",
		"minSendable": MinSendable, "maxSendable": MaxSendable, "metadata": l.metadata(),
	})
}

func (l *lnurl) invoice(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 15*time.Second)
	defer cancel()
	msat, err := strconv.ParseInt(r.URL.Query().Get("amount"), 10, 64)
	if err != nil || msat < MinSendable || msat > MaxSendable {
		refuse(w, fmt.Errorf("the amount has to be from %d to %d msat", MinSendable, MaxSendable))
		return
	}
	bolt11, err := l.issue(ctx, msat)
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, map[string]any{"pr": bolt11, "routes": []string{}})
}

func (l *lnurl) issue(ctx context.Context, msat int64) (bolt11 string, err error) {
	description := sha256.Sum256([]byte(l.metadata()))
	switch Manner(l.manner.Load()) {
	case Holding:
		bolt11, _, err = l.node.hold(ctx, terms{msat: msat, descriptionHash: description[:]})
		return bolt11, err
	case WholeSats:
		return l.node.issue(ctx, terms{msat: msat / 1000 * 1000, descriptionHash: description[:]})
	case Refusing:
		return "", errors.New("the receiver was told to refuse")
	default:
		return l.node.issue(ctx, terms{msat: msat, descriptionHash: description[:]})
	}
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

func refuse(w http.ResponseWriter, err error) {
	answer(w, map[string]string{"status": "ERROR", "reason": err.Error()})
}

// LightningAddress is the receiver's address, such as receiver@127.0.0.1:20000. The server at that address speaks plain
// HTTP.
func (n *Network) LightningAddress() string { return n.lnurl.address() }

// ReceiverAnswers sets how the receiver's lightning address answers from now on. At first it is Honest.
func (n *Network) ReceiverAnswers(m Manner) { n.lnurl.manner.Store(int32(m)) }
