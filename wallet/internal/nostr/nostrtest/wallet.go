package nostrtest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/coder/websocket"

	"github.com/a-seed-a7aed72f/holdfast/wallet/internal/nostr"
)

const (
	kindInfo     = 13194
	kindRequest  = 23194
	kindResponse = 23195
)

// Wallet is a wallet service.
type Wallet struct {
	// URI is the connection for the only client.
	URI string
	// Secret is the client's secret, as it stands in the URI.
	Secret string
	// Asked gets each request as it was decrypted, with the encryption. Nobody waits for a reader.
	Asked chan Asked

	t       testing.TB
	key     *btcec.PrivateKey
	client  *btcec.PublicKey
	options Options
}

// Asked is a request.
type Asked struct {
	Method     string
	Params     string
	Encryption nostr.Encryption
}

// Options say what a wallet service is like.
type Options struct {
	Info       string // content of the info event; empty: there is none
	Encryption string // its encryption tag; empty: there is none
	// Forge makes a forgery of an answer that says Forged. It is sent before the true one; sign signs as the wallet.
	Forge  func(answer *nostr.Event, sign func(*nostr.Event))
	Forged string
	// Answer is the JSON that a request is answered with; empty: it is not answered.
	Answer func(method string, params json.RawMessage) string
}

// NewWallet starts a wallet service that listens at the relay. It stops with the test.
func NewWallet(t testing.TB, relay *Relay, o Options) *Wallet {
	t.Helper()
	key, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	client, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	name, secret := hexKey(key.PubKey()), hex.EncodeToString(client.Serialize())
	w := &Wallet{URI: "nostr+walletconnect://" + name + "?relay=" + url.QueryEscape(relay.URL) + "&secret=" + secret, Secret: secret,
		Asked: make(chan Asked, 100), t: t, key: key, client: client.PubKey(), options: o}
	ctx, stop := context.WithCancel(context.Background())
	conn, _, err := websocket.Dial(ctx, relay.URL, nil)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	if o.Info != "" {
		info := &nostr.Event{CreatedAt: time.Now().Unix(), Kind: kindInfo, Content: o.Info, Tags: [][]string{}}
		if o.Encryption != "" {
			info.Tags = append(info.Tags, []string{"encryption", o.Encryption})
		}
		w.sign(info)
		w.write(ctx, conn, "EVENT", info)
	}
	w.write(ctx, conn, "REQ", "requests", map[string]any{"kinds": []int{kindRequest}, "#p": []string{name}})
	ready := make(chan struct{})
	var served sync.WaitGroup
	served.Go(func() { w.serve(ctx, conn, sync.OnceFunc(func() { close(ready) })) })
	t.Cleanup(func() { stop(); _ = conn.CloseNow(); served.Wait() })
	select {
	case <-ready:
	case <-time.After(10 * time.Second):
		t.Fatal("the relay does not answer the wallet")
	}
	return w
}

func (w *Wallet) serve(ctx context.Context, conn *websocket.Conn, ready func()) {
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			return
		}
		var parts []json.RawMessage
		var e nostr.Event
		_ = json.Unmarshal(text, &parts)
		switch {
		case strings.HasPrefix(string(text), `["EOSE","requests"`), strings.HasPrefix(string(text), `["CLOSED","requests"`):
			// By now the relay has the info event as well. What it says of other subscriptions it may have said before.
			ready()
		case len(parts) == 3 && json.Unmarshal(parts[2], &e) == nil && e.Kind == kindRequest:
			w.request(ctx, conn, &e)
		}
	}
}

// request answers one, as NIP-47 has it: only its own client's, in time, in the encryption that the request names.
func (w *Wallet) request(ctx context.Context, conn *websocket.Conn, e *nostr.Event) {
	encryption := nostr.NIP04
	for _, tag := range e.Tags {
		switch tag[0] {
		case "encryption":
			encryption = nostr.Encryption(tag[1])
		case "expiration":
			if until, err := strconv.ParseInt(tag[1], 10, 64); err != nil || time.Now().Unix() > until {
				w.t.Errorf("a request that has expired: %v", tag)
			}
		}
	}
	if !e.Verify() || e.PubKey != hexKey(w.client) {
		w.t.Error("a request that is not the client's")
		return
	}
	text, err := encryption.Decrypt(e.Content, w.key, w.client)
	if err != nil {
		w.t.Errorf("a request that cannot be decrypted: %v", err)
		return
	}
	var asked struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal([]byte(text), &asked); err != nil {
		w.t.Errorf("a request that is no JSON: %s", text)
		return
	}
	select {
	case w.Asked <- Asked{asked.Method, string(asked.Params), encryption}:
	default:
	}
	answer := w.options.Answer(asked.Method, asked.Params)
	if answer == "" {
		return
	}
	if w.options.Forge != nil {
		forgery := w.response(e, encryption, w.options.Forged)
		w.options.Forge(forgery, w.sign)
		w.write(ctx, conn, "EVENT", forgery)
	}
	w.write(ctx, conn, "EVENT", w.response(e, encryption, answer))
}

// response is the answer to a request, signed.
func (w *Wallet) response(request *nostr.Event, encryption nostr.Encryption, text string) *nostr.Event {
	content, err := encryption.Encrypt(text, w.key, w.client)
	if err != nil {
		w.t.Error(err)
	}
	e := &nostr.Event{CreatedAt: time.Now().Unix(), Kind: kindResponse, Content: content, Tags: [][]string{{"p", request.PubKey}, {"e", request.ID}}}
	w.sign(e)
	return e
}

func (w *Wallet) sign(e *nostr.Event) {
	if err := e.Sign(w.key); err != nil {
		w.t.Error(err)
	}
}

func (w *Wallet) write(ctx context.Context, conn *websocket.Conn, message ...any) {
	text, err := json.Marshal(message)
	if err != nil {
		w.t.Error(err)
	}
	_ = conn.Write(ctx, websocket.MessageText, text) // a relay that has gone misses it
}

func hexKey(key *btcec.PublicKey) string { return hex.EncodeToString(schnorr.SerializePubKey(key)) }
