package nostr_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/wallet/internal/nostr"
	"github.com/a-seed-a7aed72f/holdfast/wallet/internal/nostr/nostrtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socket is a connection to a relay.
type socket struct{ *websocket.Conn }

func (s socket) Read(ctx context.Context) ([]byte, error) {
	_, text, err := s.Conn.Read(ctx)
	return text, err
}

func (s socket) Write(ctx context.Context, text []byte) error {
	return s.Conn.Write(ctx, websocket.MessageText, text)
}

// ask has a wallet make an invoice.
func ask(t *testing.T, w *nostrtest.Wallet) (string, error) {
	t.Helper()
	c, err := nostr.ParseConnection(w.URI)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, c.Relays[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	result, err := c.Ask(ctx, socket{conn}, "make_invoice", map[string]any{"amount": 1000}, time.Now())
	return string(result), err
}

func answering(text string) func(string, json.RawMessage) string {
	return func(string, json.RawMessage) string { return text }
}

const issued = `{"result_type":"make_invoice","error":null,"result":{"invoice":"lnbc1"}}`

func TestAsk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		info, tag string
		want      nostr.Encryption
	}{
		"both encryptions":    {"pay_invoice make_invoice notifications", "nip44_v2 nip04", nostr.NIP44},
		"the new one":         {"make_invoice", "nip44_v2", nostr.NIP44},
		"the old one":         {"make_invoice", "nip04", nostr.NIP04},
		"no encryption named": {"make_invoice", "", nostr.NIP04},
		"no info event":       {"", "", nostr.NIP04},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			relay := nostrtest.NewRelay(t)
			// What a relay may say besides: forged answers, others' events, nonsense.
			relay.Greeting = []string{`["AUTH","challenge"]`, `["NOTICE","hello"]`, `nonsense`, `[]`, `["EVENT"]`, `["EVENT","x",{}]`, `["EVENT","x",null]`,
				`["EVENT","holdfast-info",{"kind":13194,"content":"pay_invoice","tags":[["encryption"],[]]}]`, `["EOSE","another"]`, `["CLOSED","another","x"]`, `[1,2]`, `{"a":1}`}
			relay.Noise = append(relay.Greeting, `["OK","0000",false,"another's"]`,
				`["EVENT","holdfast",{"kind":23195,"content":"forged","tags":[]}]`)
			w := nostrtest.NewWallet(t, relay, nostrtest.Options{Info: c.info, Encryption: c.tag, Answer: answering(issued)})
			result, err := ask(t, w)
			if err != nil || result != `{"invoice":"lnbc1"}` {
				t.Fatalf("%s, error %v", result, err)
			}
			if asked := <-w.Asked; asked.Encryption != c.want || asked.Method != "make_invoice" || asked.Params != `{"amount":1000}` {
				t.Errorf("asked %+v", asked)
			}
		})
	}
}

func TestWhatIsNoResult(t *testing.T) {
	t.Parallel()
	var said *nostr.WalletError
	for name, c := range map[string]struct {
		answer string
		is     func(error) bool
	}{
		"an error": {`{"result_type":"make_invoice","error":{"code":"RESTRICTED","message":"secret"},"result":null}`,
			func(err error) bool { return errors.As(err, &said) && said.Code == "RESTRICTED" }},
		"another method's": {`{"result_type":"pay_invoice","result":{}}`, isErr(nostr.ErrMalformed)},
		"nothing":          {`{}`, isErr(nostr.ErrMalformed)},
		"no JSON":          {`secret`, isErr(nostr.ErrMalformed)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := nostrtest.NewWallet(t, nostrtest.NewRelay(t), nostrtest.Options{Info: "make_invoice", Encryption: "nip44_v2", Answer: answering(c.answer)})
			if result, err := ask(t, w); !c.is(err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s, error %v", result, err)
			}
		})
	}
	t.Run("the wallet cannot", func(t *testing.T) {
		t.Parallel()
		w := nostrtest.NewWallet(t, nostrtest.NewRelay(t), nostrtest.Options{Info: "pay_invoice get_balance", Answer: answering(issued)})
		if _, err := ask(t, w); !errors.Is(err, nostr.ErrUnsupported) {
			t.Error(err)
		}
	})
	t.Run("the relay refuses the request", func(t *testing.T) {
		t.Parallel()
		relay := nostrtest.NewRelay(t)
		relay.Refuses = 23194
		w := nostrtest.NewWallet(t, relay, nostrtest.Options{Info: "make_invoice", Answer: answering(issued)})
		if _, err := ask(t, w); !errors.Is(err, nostr.ErrRefused) {
			t.Error(err)
		}
	})
	t.Run("the relay refuses to be listened to", func(t *testing.T) {
		t.Parallel()
		relay := nostrtest.NewRelay(t)
		relay.Closes = true
		w := nostrtest.NewWallet(t, relay, nostrtest.Options{Answer: answering(issued)})
		if _, err := ask(t, w); !errors.Is(err, nostr.ErrRefused) {
			t.Error(err)
		}
	})
}

func isErr(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}

// An answer that is not the wallet's, or not to this request, is waited past.
func TestForgedAnswersAreNotTaken(t *testing.T) {
	t.Parallel()
	stranger, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, forge := range map[string]func(*nostr.Event, func(*nostr.Event)){
		"the time was touched":     func(e *nostr.Event, _ func(*nostr.Event)) { e.CreatedAt++ },
		"the signature is another": func(e *nostr.Event, _ func(*nostr.Event)) { e.Sig = e.Sig[64:] + e.Sig[:64] },
		"a stranger's":             func(e *nostr.Event, _ func(*nostr.Event)) { _ = e.Sign(stranger) },
		"a stranger's in its name": func(e *nostr.Event, _ func(*nostr.Event)) { was := e.PubKey; _ = e.Sign(stranger); e.PubKey = was },
		"another request's": func(e *nostr.Event, sign func(*nostr.Event)) {
			e.Tags = [][]string{{"e", strings.Repeat("0", 64)}}
			sign(e)
		},
		"no answer at all": func(e *nostr.Event, sign func(*nostr.Event)) { e.Kind = 1; sign(e) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			relay := nostrtest.NewRelay(t)
			relay.Lax = true
			w := nostrtest.NewWallet(t, relay, nostrtest.Options{Info: "make_invoice", Encryption: "nip44_v2", Forge: forge,
				Forged: strings.Replace(issued, "lnbc1", "forged", 1), Answer: answering(issued)})
			if result, err := ask(t, w); err != nil || result != `{"invoice":"lnbc1"}` {
				t.Errorf("%s, error %v", result, err)
			}
		})
	}
}
