package wallet_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
	"github.com/a-seed-a7aed72f/holdfast/wallet/internal/nostr/nostrtest"
)

// Each kind is saved and asked, to the millisatoshi where the wallet knows them (spec 03 §3.1, 05.11).
func TestEachKindIssuesInvoices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lnurl, whole, capitals := newLNURL(t, w.mint), newLNURL(t, w.mint), newLNURL(t, w.mint)
	lnbits, old, lnd := newLNbits(t, w.mint), newLNbits(t, w.mint), newLND(t, w.mint)
	whole.wholeSats, whole.min, capitals.capitals, old.old = true, 1000, true, true
	modern, newNWCServer := newNWC(t, w.mint, "nip44_v2 nip04")
	legacy, oldNWCServer := newNWC(t, w.mint, "")
	for name, c := range map[string]struct {
		settings wallet.Settings
		server   *server
		amount   paidaction.Msat // of the invoice, where 12,345 msat are asked for
		expiry   int64
	}{
		"lightning address":            {lnurl.address(), lnurl.server, 12_345, 0},
		"LNURL-pay":                    {wallet.LightningAddress{Address: wallet.Secret(" " + lnurl.URL + "/pay\n")}, lnurl.server, 12_345, 0},
		"an address that is truncated": {whole.address(), whole.server, 12_000, 0},
		"an invoice in capitals":       {capitals.address(), capitals.server, 12_345, 0},
		"LND by REST":                  {lnd.settings(), lnd.server, 12_345, 600},
		"LNbits":                       {lnbits.settings(), lnbits.server, 12_000, 600},
		"LNbits before 1.0":            {old.settings(), old.server, 12_000, 600},
		"NWC":                          {wallet.NWC{URI: wallet.Secret(modern.URI)}, newNWCServer, 12_345, 600},
		"NWC of old":                   {wallet.NWC{URI: wallet.Secret(legacy.URI)}, oldNWCServer, 12_345, 600},
	} {
		user := w.user()
		saved, err := w.Save(w.ctx, user, 0, "my "+name, c.settings, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if saved.Kind != c.settings.Kind() || saved.Label != "my "+name || !saved.Enabled || saved.Priority != 1 {
			t.Errorf("%s was saved as %+v", name, saved)
		}
		if test := c.server.last(); test.amount != 1000 || !strings.Contains(test.memo, "test") {
			t.Errorf("%s was tested with %+v", name, test)
		}
		id, bolt11, err := w.each(user, 0, 12_345)
		if err != nil || id != saved.ID {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := asked{c.amount, "memo", c.expiry}
		if got := w.read(bolt11); got.Amount != c.amount || c.server.last() != want {
			t.Errorf("%s issued an invoice over %d msat, and was asked for %+v; want %+v", name, got.Amount, c.server.last(), want)
		}
		w.wantLog(id, "ok INVOICE_ISSUED", "ok INVOICE_ISSUED")
	}
}

// The wallet's own limits are kept: a test asks for as much as it takes, and what it does not take is not asked for.
func TestLimitsOfAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newLNURL(t, w.mint)
	s.min, s.max, s.comment = 10_000, 20_000, 2
	user := w.user()
	saved := w.save(user, s.address())
	if got := s.last(); got.amount != 10_000 || got.memo != "A " {
		t.Errorf("tested with %+v", got)
	}
	for amount, code := range map[paidaction.Msat]string{9_999: "WALLET_AMOUNT", 20_001: "WALLET_AMOUNT", 10_000: "", 20_000: ""} {
		if _, _, err := w.each(user, 0, amount); isNone(err) != (code != "") {
			t.Errorf("%d msat: %v", amount, err)
		}
	}
	if log := strings.Join(w.log(saved.ID), " "); strings.Count(log, "WALLET_AMOUNT") != 2 || strings.Count(log, "ok") != 3 {
		t.Errorf("logged %s", log)
	}
	lnbits := newLNbits(t, w.mint)
	other := w.user()
	saved = w.save(other, lnbits.settings())
	if _, _, err := w.each(other, 0, 999); !isNone(err) {
		t.Errorf("less than a sat of LNbits: %v", err)
	}
	w.wantLog(saved.ID, "ok INVOICE_ISSUED", "WALLET_AMOUNT")
}

// What a server says that is no invoice is told apart, and nothing is saved.
func TestWalletsThatFailAreNotSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lnurl, lnbits, lnd := newLNURL(t, w.mint), newLNbits(t, w.mint), newLND(t, w.mint)
	gone := newLNbits(t, w.mint)
	gone.Close()
	say := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = w.Write([]byte(body)) }
	}
	callback := func(answer http.HandlerFunc) http.HandlerFunc { // the first request is answered well
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/callback" {
				lnurl.serve(w, r)
				return
			}
			answer(w, r)
		}
	}
	invoiceOver := func(amount paidaction.Msat) http.HandlerFunc {
		return say(201, `{"bolt11":"`+w.invoice(amount, "")+`"}`)
	}
	slow := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the client go
		_, _ = w.Write([]byte(`{"bolt11":"`))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	huge := say(200, `{"pr":"`+strings.Repeat("x", 10<<20)+`"}`)
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	noCertificate := lnd.settings()
	noCertificate.Certificate = ""
	foreign := strings.Repeat("lnbcfrt", 10)
	for name, c := range map[string]struct {
		settings wallet.Settings
		server   *server
		answer   http.HandlerFunc
		code     paidaction.Code
	}{
		"the server is down":               {gone.settings(), nil, nil, wallet.CodeUnreachable},
		"no such host":                     {wallet.LNbits{URL: "https://wallet.invalid", Key: lnbitsKey}, nil, nil, wallet.CodeUnreachable},
		"the key is refused":               {wallet.LNbits{URL: lnbits.URL, Key: "another-key-of-somebody"}, nil, nil, wallet.CodeKeyRefused},
		"the macaroon is refused":          {wallet.LNDREST{URL: lnd.URL, Macaroon: "00", Certificate: lnd.certificate()}, nil, nil, wallet.CodeBadAnswer},
		"a certificate of nobody":          {noCertificate, nil, nil, wallet.CodeCertificate},
		"a page":                           {lnbits.settings(), lnbits.server, say(200, "<html>"), wallet.CodeBadAnswer},
		"a fault":                          {lnbits.settings(), lnbits.server, say(500, "{}"), wallet.CodeBadAnswer},
		"an empty object":                  {lnbits.settings(), lnbits.server, say(201, "{}"), wallet.CodeBadAnswer},
		"null":                             {lnbits.settings(), lnbits.server, say(201, "null"), wallet.CodeBadAnswer},
		"a number for an invoice":          {lnbits.settings(), lnbits.server, say(201, `{"bolt11":1}`), wallet.CodeBadAnswer},
		"no bolt11":                        {lnbits.settings(), lnbits.server, say(201, `{"bolt11":"hello, this is no invoice at all"}`), wallet.CodeBadAnswer},
		"an invoice without end":           {lnbits.settings(), lnbits.server, say(201, `{"bolt11":"`+strings.Repeat(foreign, 60)+`"}`), wallet.CodeBadAnswer},
		"another network":                  {lnbits.settings(), lnbits.server, say(201, `{"bolt11":"`+foreign+`"}`), wallet.CodeBadInvoice},
		"more than asked for":              {lnbits.settings(), lnbits.server, invoiceOver(1001), wallet.CodeBadInvoice},
		"short by a sat":                   {lnbits.settings(), lnbits.server, invoiceOver(0), wallet.CodeBadInvoice},
		"a slow answer":                    {lnbits.settings(), lnbits.server, slow, wallet.CodeTimeout},
		"a huge answer":                    {lnbits.settings(), lnbits.server, huge, wallet.CodeBadAnswer},
		"a redirect with the key":          {lnbits.settings(), lnbits.server, redirect("https://1.1.1.1/"), wallet.CodeBadAnswer},
		"redirects without end":            {lnurl.address(), lnurl.server, redirect("/again"), wallet.CodeBadAnswer},
		"a redirect out of HTTP":           {lnurl.address(), lnurl.server, redirect("file:///etc/passwd"), wallet.CodeForbidden},
		"nobody of this name":              {lnurl.address(), lnurl.server, say(404, "not found"), wallet.CodeBadAnswer},
		"nobody of this name, in JSON":     {lnurl.address(), lnurl.server, say(404, `{"status":"ERROR","reason":"no"}`), wallet.CodeDeclined},
		"an LNURL that pays out":           {lnurl.address(), lnurl.server, say(200, `{"tag":"withdrawRequest"}`), wallet.CodeBadAnswer},
		"a callback that declines":         {lnurl.address(), lnurl.server, callback(say(200, `{"status":"ERROR"}`)), wallet.CodeDeclined},
		"a callback without invoice":       {lnurl.address(), lnurl.server, callback(say(200, `{"pr":""}`)), wallet.CodeBadAnswer},
		"a callback out of HTTP":           {lnurl.address(), lnurl.server, say(200, `{"tag":"payRequest","callback":"gopher://x","minSendable":1,"maxSendable":9999,"metadata":"[[\"text/plain\",\"\"]]"}`), wallet.CodeForbidden},
		"LND by gRPC, where it is not had": {wallet.LNDGRPC{Address: "localhost:1", Macaroon: "00"}, nil, nil, paidaction.CodeInvalidInput},
	} {
		user := w.user()
		if c.server != nil {
			c.server.breaks(c.answer)
		}
		w.Limits.Call = patience(c.code)
		_, err := w.Save(w.ctx, user, 0, "", c.settings, nil)
		if codeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if list, err := w.List(w.ctx, user); err != nil || len(list) != 0 {
			t.Errorf("%s: saved %+v, error %v", name, list, err)
		}
		if c.server != nil {
			c.server.breaks(nil)
		}
	}
}

// A wallet that cuts off what is less than a sat is none that fails (spec 05.11).
func TestAWalletThatTruncatesIsSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lnurl := newLNURL(t, w.mint)
	lnurl.min = 1999
	lnurl.breaks(func(answer http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/callback" {
			lnurl.serve(answer, r)
			return
		}
		reply(answer, http.StatusOK, map[string]any{"pr": w.invoice(1000, ""), "routes": []any{}})
	})
	if _, err := w.Save(w.ctx, w.user(), 0, "", lnurl.address(), nil); err != nil {
		t.Errorf("an invoice over 1000 msat where 1999 were asked for: %v", err)
	}
}

// patience is how long a call may last whose end is expected so.
func patience(code paidaction.Code) time.Duration {
	if code == wallet.CodeTimeout {
		return 300 * time.Millisecond
	}
	return time.Minute
}

// What NIP-47 and its relays can answer.
func TestNWCWalletsThatFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failing := func(code string) string {
		return `{"result_type":"make_invoice","error":{"code":"` + code + `","message":"secret"}}`
	}
	for name, c := range map[string]struct {
		info, answer string
		code         paidaction.Code
	}{
		"too often":       {"make_invoice", failing("RATE_LIMITED"), wallet.CodeDeclined},
		"not implemented": {"make_invoice", failing("NOT_IMPLEMENTED"), wallet.CodeDeclined},
		"restricted":      {"make_invoice", failing("RESTRICTED"), wallet.CodeKeyRefused},
		"unauthorized":    {"make_invoice", failing("UNAUTHORIZED"), wallet.CodeKeyRefused},
		"internal":        {"make_invoice", failing("INTERNAL"), wallet.CodeDeclined},
		"of its own":      {"make_invoice", failing("secret"), wallet.CodeDeclined},
		"cannot":          {"pay_invoice", failing("OTHER"), wallet.CodeDeclined},
		"no invoice":      {"make_invoice", `{"result_type":"make_invoice","result":{}}`, wallet.CodeBadAnswer},
		"no answer":       {"make_invoice", "", wallet.CodeTimeout},
	} {
		s := nostrtest.NewWallet(t, nostrtest.NewRelay(t), nostrtest.Options{Info: c.info, Encryption: "nip44_v2",
			Answer: func(string, json.RawMessage) string { return c.answer }})
		w.Limits.Call = patience(c.code)
		if _, err := w.Save(w.ctx, w.user(), 0, "", wallet.NWC{URI: wallet.Secret(s.URI)}, nil); codeOf(err) != c.code || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
}

// Through the second relay, if the first is gone.
func TestNWCHasSeveralRelays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := newNWC(t, w.mint, "nip44_v2")
	w.save(w.user(), wallet.NWC{URI: wallet.Secret(strings.Replace(s.URI, "?", "?relay=ws://127.0.0.1:1&", 1))})
}

// And if the first hangs, the second still has time to answer.
func TestARelayThatHangsLeavesTimeForTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hangs.Close)
	s, _ := newNWC(t, w.mint, "nip44_v2")
	w.save(w.user(), wallet.NWC{URI: wallet.Secret(strings.Replace(s.URI, "?", "?relay="+strings.Replace(hangs.URL, "http", "ws", 1)+"&", 1))})
}

// A relay that is there and does not forward the request is like one that is gone.
func TestARelayThatRefusesLeavesItToTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := newNWC(t, w.mint, "nip44_v2")
	noSubscriptions, noRequests := nostrtest.NewRelay(t), nostrtest.NewRelay(t)
	noSubscriptions.Closes, noRequests.Refuses = true, 23194
	leaves := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if conn, err := websocket.Accept(answer, r, nil); err == nil {
			_ = conn.CloseNow()
		}
	}))
	t.Cleanup(leaves.Close)
	for what, relay := range map[string]string{"no subscriptions": noSubscriptions.URL, "no requests": noRequests.URL, "it hangs up": "ws" + strings.TrimPrefix(leaves.URL, "http")} {
		if _, err := w.Save(w.ctx, w.user(), 0, "", wallet.NWC{URI: wallet.Secret(strings.Replace(s.URI, "?", "?relay="+relay+"&", 1))}, nil); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := w.Save(w.ctx, w.user(), 0, "", wallet.NWC{URI: wallet.Secret(strings.Replace(s.URI, "relay=", "relay="+relay+"&x=", 1))}, nil); codeOf(err) != wallet.CodeUnreachable {
			t.Errorf("%s, and no other relay: %v", what, err)
		}
	}
}

// Some wallets round to whole sats, as often up as down. What is above the request is refused, and then the whole sats
// below it are asked for, once. It is no failure of the wallet.
func TestAWalletThatRoundsUpIsAskedForWholeSats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newLNURL(t, w.mint)
	s.rounds = true
	above := paidaction.Errorf(paidaction.CodeAboveRequest, "The invoice is for too much.")
	for _, c := range []struct{ amount, invoice, asked paidaction.Msat }{
		{14_700, 14_000, 14_000}, {14_400, 14_000, 14_400}, {15_000, 15_000, 15_000}, {1_999, 1_000, 1_000}, {999, 0, 999},
	} {
		user, got := w.user(), paidaction.Msat(0)
		saved := w.save(user, s.address())
		err := w.Each(w.ctx, user, w.genesis(), c.amount, "memo", func(_ int64, bolt11 string) error {
			if read := w.read(bolt11); read.Amount > c.amount {
				return above
			} else {
				got = read.Amount
			}
			return nil
		})
		if got != c.invoice || isNone(err) != (c.invoice == 0) || s.last().amount != c.asked {
			t.Errorf("%d msat: an invoice for %d, the last was asked for %d; error %v", c.amount, got, s.last().amount, err)
		}
		last := "ok INVOICE_ISSUED"
		if c.invoice == 0 {
			last = "ABOVE_REQUEST"
		}
		w.wantLog(saved.ID, "ok INVOICE_ISSUED", last)
	}
	// One that asks for more than any whole sat is its owner's to mend.
	user := w.user()
	saved, asked := w.save(user, s.address()), s.count()
	if err := w.Each(w.ctx, user, w.genesis(), 14_700, "", func(int64, string) error { return above }); !isNone(err) || s.count() != asked+2 {
		t.Errorf("%v, asked %d times", err, s.count()-asked)
	}
	w.wantLog(saved.ID, "ok INVOICE_ISSUED", "ABOVE_REQUEST")
}

// Settings that cannot be are refused before anybody is called.
func TestSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	called := errors.New("called")
	w := newWorld(t, func(c *wallet.Config) {
		c.Outside = outside.New(outside.Config{})
		c.AddInvoice = func(context.Context, wallet.LNDGRPC, wallet.Request, wallet.Dial) (string, error) { return "", called }
	})
	const secret = "71a8c14c1407c113601079c4302dab36460f0ccd0ad506f1f2dc73b5100e4f3c"
	const nwc = "nostr+walletconnect://b889ff5b1513b641e2a139f661a661364979c5beee91842f8f0ef42ab558e9d4?secret=" + secret + "&relay="
	for _, s := range []wallet.Settings{
		wallet.LightningAddress{}, wallet.LightningAddress{Address: "alice"}, wallet.LightningAddress{Address: "http://wallet.example/pay"},
		wallet.LightningAddress{Address: "alice@localhost"}, wallet.LightningAddress{Address: "https://user:" + secret + "@wallet.example"},
		wallet.LNDREST{}, wallet.LNDREST{URL: "http://node.example:8080", Macaroon: "00"}, wallet.LNDREST{URL: "https://node.example:8080"},
		wallet.LNDREST{URL: "https://node.example:8080", Macaroon: "xyz"}, wallet.LNDREST{URL: "https://node.example:8080?x=" + secret, Macaroon: "00"},
		wallet.LNDREST{URL: "https://node.example:8080", Macaroon: "00", Certificate: "xyz"}, wallet.LNDREST{URL: "wss://node.example", Macaroon: "00"},
		wallet.LNDREST{URL: "https://node.example:8080", Macaroon: wallet.Secret(strings.Repeat("00", 5000))},
		wallet.LNDGRPC{}, wallet.LNDGRPC{Address: "node.example", Macaroon: "00"}, wallet.LNDGRPC{Address: ":10009", Macaroon: "00"},
		wallet.LNDGRPC{Address: "https://node.example:10009", Macaroon: "00"}, wallet.LNDGRPC{Address: "node.example:10009", Macaroon: ""},
		wallet.LNbits{}, wallet.LNbits{URL: "https://lnbits.example"}, wallet.LNbits{URL: "https://lnbits.example", Key: "a key\nX: y"},
		wallet.LNbits{URL: "http://lnbits.example", Key: lnbitsKey}, wallet.LNbits{URL: "file:///etc", Key: lnbitsKey},
		wallet.NWC{}, wallet.NWC{URI: nwc}, wallet.NWC{URI: nwc + "ws://relay.example"}, wallet.NWC{URI: nwc + "https://relay.example"},
		wallet.NWC{URI: nwc + "wss://relay.example&relay=ws://relay.example"},
	} {
		_, err := w.Save(w.ctx, w.user(), 0, "", s, nil)
		if codeOf(err) != paidaction.CodeInvalidInput || strings.Contains(err.Error(), secret) {
			t.Errorf("%T %v: %v", s, s, err)
		}
	}
	for _, label := range []string{strings.Repeat("x", 61), "a\x00b", "\xff"} {
		if _, err := w.Save(w.ctx, w.user(), 0, label, wallet.NWC{URI: nwc + "wss://relay.example"}, nil); codeOf(err) != paidaction.CodeInvalidInput {
			t.Errorf("label %q: %v", label, err)
		}
	}
}

// No kind reaches what is private (spec 03 §3.1).
func TestGuardOfEachKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *wallet.Config) {
		c.Outside = outside.New(outside.Config{})
		c.AddInvoice = func(ctx context.Context, at wallet.LNDGRPC, _ wallet.Request, dial wallet.Dial) (string, error) {
			if conn, err := dial(ctx, at.Address); err == nil {
				conn.Close()
				return "", errors.New("connected")
			}
			return "", wallet.ErrUnreachable // as gRPC has it
		}
	})
	lnd := newLND(t, w.mint)
	lnd.breaks(func(http.ResponseWriter, *http.Request) { t.Error("a private server was called") })
	_, port, err := net.SplitHostPort(lnd.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	const nwc = "nostr+walletconnect://b889ff5b1513b641e2a139f661a661364979c5beee91842f8f0ef42ab558e9d4?secret=71a8c14c1407c113601079c4302dab36460f0ccd0ad506f1f2dc73b5100e4f3c&relay=wss://"
	for _, host := range []string{"127.0.0.1:" + port, "[::ffff:127.0.0.1]:" + port, "10.0.0.1:443", "169.254.169.254:443", "[64:ff9b::7f00:1]:" + port} {
		for _, s := range []wallet.Settings{
			wallet.LightningAddress{Address: wallet.Secret("https://" + host + "/pay")}, wallet.LNDREST{URL: "https://" + host, Macaroon: "00"},
			wallet.LNDGRPC{Address: host, Macaroon: "00"}, wallet.LNbits{URL: "https://" + host, Key: lnbitsKey}, wallet.NWC{URI: wallet.Secret(nwc + host)},
		} {
			if _, err := w.Save(w.ctx, w.user(), 0, "", s, nil); codeOf(err) != wallet.CodeForbidden {
				t.Errorf("%s at %s: %v", s.Kind(), host, err)
			}
		}
	}
}

// No kind is this service: an invoice that we ask of ourselves would make us ask again without end. The owner is told so.
func TestNoKindLeadsBackHere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *wallet.Config) {
		c.Outside = outside.New(outside.Config{Own: &url.URL{Scheme: "https", Host: "holdfast.example"}})
		c.AddInvoice = func(ctx context.Context, at wallet.LNDGRPC, _ wallet.Request, dial wallet.Dial) (string, error) {
			_, err := dial(ctx, at.Address)
			return "", errors.Join(wallet.ErrUnreachable, errors.New(err.Error())) // gRPC keeps only the text
		}
	})
	const nwc = "nostr+walletconnect://b889ff5b1513b641e2a139f661a661364979c5beee91842f8f0ef42ab558e9d4?secret=71a8c14c1407c113601079c4302dab36460f0ccd0ad506f1f2dc73b5100e4f3c&relay=wss://"
	for _, s := range []wallet.Settings{
		wallet.LightningAddress{Address: "alice@holdfast.example"}, wallet.LNDREST{URL: "https://holdfast.example", Macaroon: "00"},
		wallet.LNDGRPC{Address: "holdfast.example:443", Macaroon: "00"}, wallet.LNbits{URL: "https://holdfast.example", Key: lnbitsKey},
		wallet.NWC{URI: nwc + "holdfast.example"},
	} {
		if _, err := w.Save(w.ctx, w.user(), 0, "", s, nil); codeOf(err) != wallet.CodeForbidden || !strings.Contains(err.Error(), "leads back to this service") {
			t.Errorf("%s: %v", s.Kind(), err)
		}
	}
}

// A payment to anybody's address asks as a wallet's does, and is logged for nobody.
func TestAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newLNURL(t, w.mint)
	bolt11, err := w.Address(w.ctx, string(s.address().Address), 5_000, "thanks")
	if err != nil || w.read(bolt11).Amount != 5_000 || s.last() != (asked{5_000, "thanks", 0}) {
		t.Errorf("%q, asked for %+v, error %v", bolt11, s.last(), err)
	}
	s.max = 4_000
	if _, err := w.Address(w.ctx, string(s.address().Address), 5_000, ""); codeOf(err) != wallet.CodeAmount {
		t.Errorf("too much: %v", err)
	}
	s.max, s.comment = 1_000_000_000, 6
	if _, err := w.Address(w.ctx, string(s.address().Address), 5_000, "thanks"); err != nil {
		t.Error(err)
	}
	asked := s.count()
	if _, err := w.Address(w.ctx, string(s.address().Address), 5_000, "thanks!"); codeOf(err) != paidaction.CodeInvalidInput || s.count() != asked {
		t.Errorf("a comment that would be cut: %v", err)
	}
	// What the payer gets for it would be lost with the answer (LUD-09).
	user := w.user()
	for action, refused := range map[string]bool{"null": false, `{"tag":"message","message":"Thank you"}`: false, `{"tag":"aes","description":"","ciphertext":"x","iv":"x"}`: true,
		`{"tag":"url","description":"your ticket","url":"https://wallet.example/ticket"}`: true, `{"tag":"other"}`: true} {
		s.action = json.RawMessage(action)
		if _, err := w.Address(w.ctx, string(s.address().Address), 5_000, ""); (codeOf(err) == paidaction.CodeInvalidInput) != refused || (err != nil) != refused {
			t.Errorf("with %s: %v", action, err)
		}
		if _, err := w.Save(w.ctx, user, 0, "", s.address(), nil); err != nil { // nobody pays their own wallet to get something
			t.Errorf("a wallet that gives %s: %v", action, err)
		}
	}
	s.action, s.max = nil, 1_000
	if _, err := w.Address(w.ctx, "nobody", 5_000, ""); codeOf(err) != paidaction.CodeInvalidInput {
		t.Errorf("no address: %v", err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := w.Address(ctx, string(s.address().Address), 1_000, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}
