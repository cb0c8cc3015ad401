package wallet_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/wallet"
)

// shown is everything that anybody but the wallet sees: the tables as text and as bytes, the operator's log, errors.
func (w *world) shown(errs ...error) string {
	return strings.ToLower(w.everything() + w.out.String() + fmt.Sprintf("%v %+v", errs, errs))
}

// Whole tables are read, and no secret is in them; nor is it where a server echoes what it was sent.
func TestSecretsAreNeverSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, genesis := w.user(), w.genesis()
	const token = "tokenofthelnurl"
	lnurl, lnbits, lnd := newLNURL(t, w.mint), newLNbits(t, w.mint), newLND(t, w.mint)
	nwc, _ := newNWC(t, w.mint, "nip44_v2")
	// Header values, query and body come back in every form that a server has.
	echo := func(w http.ResponseWriter, r *http.Request) {
		all := fmt.Sprint(r.Header, r.URL, r.Host)
		w.Header().Set("X-Echo", all)
		http.Error(w, `{"status":"ERROR","reason":"`+all+`","detail":"`+all+`","message":"`+all+`"}`, http.StatusTeapot)
	}
	echoWell := func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, `{"pr": %v %v`, r.Header, r.URL) }
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "gopher://"+r.Header.Get("X-Api-Key")+token+".example/", http.StatusFound)
	}
	settings := []wallet.Settings{
		wallet.LightningAddress{Address: wallet.Secret(lnurl.URL + "/pay?token=" + token)}, lnd.settings(), lnbits.settings(), wallet.NWC{URI: wallet.Secret(nwc.URI)},
	}
	secrets := []string{token, lndMacaroon, lnbitsKey, nwc.Secret}
	var errs []error
	for _, s := range settings {
		if _, err := w.Save(w.ctx, user, 0, "", s, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, answer := range []http.HandlerFunc{echo, echoWell, redirect} {
		for _, s := range []*server{lnurl.server, lnbits.server, lnd.server} {
			s.breaks(answer)
		}
		for _, s := range settings[:3] {
			_, err := w.Save(w.ctx, user, 0, "", s, nil)
			if errs = append(errs, err); err == nil {
				t.Errorf("%s was saved though it is broken", s.Kind())
			}
		}
		for range 2 {
			_, _, err := w.each(user, genesis, 1000)
			errs = append(errs, err)
		}
	}
	for _, s := range settings {
		errs = append(errs, fmt.Errorf("%v %+v %#v", s, s, s))
		slog.New(slog.NewTextHandler(w.out, nil)).Info("settings", "settings", s)
	}
	for _, secret := range secrets {
		if shown := w.shown(errs...); strings.Contains(shown, strings.ToLower(secret)) {
			t.Errorf("%s is seen in %s", secret, shown)
		}
	}
	// The test would see them: they are there, encrypted.
	if !strings.Contains(w.everything(), "LND_REST") {
		t.Error("the table was not read")
	}
}

// Rows that are swapped, moved or touched do not open.
func TestRowsCannotBeSwapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, mallory := w.user(), w.user()
	s, other := newLNbits(t, w.mint), newLNbits(t, w.mint)
	a, b, second := w.save(alice, s.settings()).ID, w.save(mallory, other.settings()).ID, w.save(alice, s.settings()).ID
	of := func(id int64) string {
		return fmt.Sprintf("settings = (SELECT settings FROM receiver_wallet WHERE id = %d)", id)
	}
	for what, change := range map[string]string{
		"another user's settings":           of(b),
		"another wallet's of the same user": of(second),
		"another kind":                      "kind = 'NWC'",
		"a byte touched":                    "settings = set_byte(settings, 20, get_byte(settings, 20) # 1)",
		"another key's number":              "settings = set_byte(settings, 0, 2)",
		"cut off":                           "settings = substr(settings, 1, 10)",
		"empty":                             "settings = ''",
	} {
		var kind string
		var settings []byte
		if err := w.pool.QueryRow(w.ctx, `SELECT kind, settings FROM receiver_wallet WHERE id = $1`, a).Scan(&kind, &settings); err != nil {
			t.Fatal(err)
		}
		if _, err := w.pool.Exec(w.ctx, `UPDATE receiver_wallet SET `+change+` WHERE id = $1`, a); err != nil {
			t.Fatal(err)
		}
		w.want(alice, 0, second)
		if log := w.log(a); log[len(log)-1] != "WALLET_UNOPENED" {
			t.Errorf("%s: %q", what, log)
		}
		if _, err := w.pool.Exec(w.ctx, `UPDATE receiver_wallet SET kind = $2, settings = $3 WHERE id = $1`, a, kind, settings); err != nil {
			t.Fatal(err)
		}
		w.want(alice, 0, a)
	}
	if _, err := w.pool.Exec(w.ctx, `UPDATE receiver_wallet SET user_id = $2 WHERE id = $1`, b, alice); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Reorder(w.ctx, alice, []int64{b, a, second}, nil); err != nil {
		t.Fatal(err)
	}
	w.want(alice, 0, a) // another user's row does not become hers
}

// With another secret nothing opens; the operator is told, and the owner what to do.
func TestAnotherSecretOpensNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.user()
	id := w.save(user, newLNbits(t, w.mint).settings()).ID
	c := w.Config
	c.Secret = []byte(strings.Repeat("t", 32))
	wallets, err := wallet.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := wallets.Each(w.ctx, user, 0, 1000, "", func(int64, string) error { return nil }); !errors.Is(err, wallet.ErrNoWallet) {
		t.Errorf("opened with another secret: %v", err)
	}
	w.wantLog(id, "ok INVOICE_ISSUED", "WALLET_UNOPENED")
	if !strings.Contains(w.out.String(), "cannot be opened") {
		t.Error("the operator was not told")
	}
	c.Secret = c.Secret[:31]
	if _, err := wallet.New(c); err == nil {
		t.Error("a secret of 31 bytes was taken")
	}
}
