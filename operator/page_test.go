package operator_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/operator"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

var key = []byte(strings.Repeat("k", 32))

// pages are the operator's pages of a world.
type pages struct {
	*testing.T
	handler http.Handler
}

func open(t *testing.T, w *enginetest.World, change ...func(*operator.PageConfig)) pages {
	t.Helper()
	silent := slog.New(slog.DiscardHandler)
	jobs, err := worker.NewJobsPage(t.Context(), w.Pool, operator.JobsPath, silent)
	if err != nil {
		t.Fatal(err)
	}
	c := operator.PageConfig{
		Lookout: operator.NewLookout(operator.Config{Pool: w.Pool, Queues: worker.Queues(), Now: w.Clock.Now}),
		Pool:    w.Pool, Key: key, Jobs: jobs, Log: silent,
		Parts: func(context.Context) []operator.Part { return []operator.Part{{Name: "database"}} },
	}
	for _, f := range change {
		f(&c)
	}
	return pages{t, operator.NewHandler(c)}
}

// ask sends a request with the operator's key, unless another password is given.
func (p pages) ask(method, path string, header ...string) (*http.Response, string) {
	p.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(`{"ids": ["1"]}`))
	r.SetBasicAuth("operator", hex.EncodeToString(key))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		p.Fatal(err)
	}
	return w.Result(), string(body)
}

// wants asks for a page, which must contain all of these words.
func (p pages) wants(path string, status int, words ...string) (page string) {
	p.Helper()
	r, page := p.ask(http.MethodGet, path)
	if r.StatusCode != status {
		p.Errorf("%s: %d, want %d", path, r.StatusCode, status)
	}
	for _, word := range words {
		if !strings.Contains(page, word) {
			p.Errorf("%s does not say %q:\n%s", path, word, page)
		}
	}
	return page
}

// Nobody sees a page without the key. A service without a key has no password that opens it, not even the empty one.
func TestPagesAreForOperatorsAlone(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	p, keyless := open(t, w), open(t, w, func(c *operator.PageConfig) { c.Key = nil })
	for _, path := range []string{"/operator/", "/operator/actions", "/operator/actions/1", "/operator/style.css", "/operator/jobs/", "/operator/jobs/api/jobs", "/operator/none"} {
		for _, password := range []string{"", "00", hex.EncodeToString(key[1:]), hex.EncodeToString(key) + "00", strings.Repeat("00", len(key)), string(key), "Basic"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.SetBasicAuth("operator", password)
			for _, handler := range []http.Handler{p.handler, keyless.handler} {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != http.StatusUnauthorized || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") || strings.Contains(w.Body.String(), "<") {
					t.Errorf("%s with %q: %d %s", path, password, w.Code, w.Body)
				}
			}
		}
		if r, _ := keyless.ask(http.MethodGet, path); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s of a service without a key: %d", path, r.StatusCode)
		}
	}
	r, _ := p.ask(http.MethodGet, "/operator/")
	if h := r.Header; r.StatusCode != http.StatusOK || h.Get("Cache-Control") != "no-store" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("with the key: %d %v", r.StatusCode, h)
	}
}

func TestOverviewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	p := open(t, w, func(c *operator.PageConfig) {
		c.Parts = func(context.Context) []operator.Part {
			return []operator.Part{{Name: "database"}, {Name: "node alice", Problem: "It is behind the chain, at height 812."}}
		}
		c.Nodes = func(context.Context) ([]operator.Node, error) {
			return []operator.Node{{Name: "alice", WhyNot: "it is drained", InFlight: 2, Slots: 3, OutboundMsat: 1_234_567, Height: 812}}, nil
		}
	})
	p.wants("/operator/", http.StatusOK, "database: ready", "node alice: It is behind the chain, at height 812.", "no: it is drained", "1,234,567",
		`id="stuck">Stuck actions</h2>`+"\n"+`<p class="good">None.</p>`, "All credits are backed.")

	alice := w.User("alice", 50_000, 0)
	stuck := w.Pay(alice, community.KindItemCreate, community.ItemCreateArgs{Title: "One"}, paidaction.Optimistic)
	w.Clock.Advance(stuck.Deadline.Sub(w.Clock.Now()) + 90*time.Second)
	if _, err := w.Pool.Exec(w.Ctx, `UPDATE account SET balance = balance + 1 WHERE id = $1`, ledger.BackingSats); err != nil {
		t.Fatal(err)
	}
	p.wants("/operator/", http.StatusOK, fmt.Sprintf(`<a href="/operator/actions/%d">Action %[1]d</a>: ITEM_CREATE, OPTIMISTIC, PENDING`, stuck.ID),
		"<strong>PENDING</strong>", `<a href="/operator/actions?state=PENDING">PENDING</a></th><td class="n">1</td><td class="n">1</td>`, "differ by 1 msat", "−50,000")

	if _, err := w.Pool.Exec(w.Ctx, `ALTER TABLE paid_action RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(5 * time.Second)
	page := p.wants("/operator/", http.StatusOK, "The database could not be read", "database: ready")
	if strings.Contains(page, "backed") {
		t.Errorf("it shows what it does not know:\n%s", page)
	}
	p.wants("/operator/actions", http.StatusServiceUnavailable, "could not be read")
}

// An action's page shows the same as the command line: everything except what would let somebody take the money.
func TestActionWithItsHistory(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	alice := w.User("alice", 50_000, 0)
	w.Pay(alice, community.KindItemCreate, community.ItemCreateArgs{Title: "Paid"}, paidaction.FeeCredit)
	pending := w.Pay(alice, community.KindItemCreate, community.ItemCreateArgs{Title: "<script>alert(1)</script>"}, paidaction.Optimistic)
	var preimage []byte
	if err := w.Pool.QueryRow(w.Ctx, `SELECT preimage FROM invoice WHERE action_id = $1`, pending.ID).Scan(&preimage); err != nil {
		t.Fatal(err)
	}
	p := open(t, w)
	page := p.wants(fmt.Sprint("/operator/actions/", pending.ID), http.StatusOK, "<strong>PENDING</strong>", "method OPTIMISTIC", ", alice", "alert(1)", pending.Invoice.Bolt11, "msat")
	if strings.Contains(page, "<script") || strings.Contains(page, hex.EncodeToString(preimage)) {
		t.Errorf("it shows what it must not:\n%s", page)
	}
	list := p.wants("/operator/actions", http.StatusOK, "ITEM_CREATE", fmt.Sprintf("/operator/actions/%d", pending.ID), "PAID", "PENDING")
	if strings.Contains(list, "Older") {
		t.Error("there is no older page")
	}
	if held := p.wants("/operator/actions?state=HELD", http.StatusOK, "None."); strings.Contains(held, "ITEM_CREATE") {
		t.Error("it shows those of other states")
	}
	p.wants("/operator/actions?state=PENDING", http.StatusOK, fmt.Sprintf("/operator/actions/%d", pending.ID))
	p.wants("/operator/actions?state=PAID", http.StatusNotFound, "no such open state")
	p.wants("/operator/actions/99", http.StatusNotFound, "There is no action 99.")
	p.wants("/operator/actions/one", http.StatusNotFound, "number, as in the log")
	p.wants(fmt.Sprintf("/operator/actions?before=%d", pending.ID), http.StatusOK, "PAID")
	if r, _ := p.ask(http.MethodGet, "/operator/actions?id=+7+"); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/operator/actions/7" {
		t.Errorf("looking for 7: %d %s", r.StatusCode, r.Header.Get("Location"))
	}
	if r, _ := p.ask(http.MethodPost, "/operator/actions"); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("writing: %d", r.StatusCode)
	}
}

// Whoever looks at the action of a redeemed invite cannot take the gifts that are left of it.
func TestAnInvitesCodeIsNotShown(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	inviter, newcomer := w.User("inviter", 200_000, 0), w.User("newcomer", 0, 0)
	invite, err := community.CreateInvite(w.Ctx, db.New(w.Pool), inviter, 100, 2, w.Clock.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	gift := w.Pay(inviter, community.KindInviteGift, community.InviteGiftArgs{Code: invite.Code, User: newcomer}, paidaction.FeeCredit)
	page := open(t, w).wants(fmt.Sprint("/operator/actions/", gift.ID), http.StatusOK, "INVITE_GIFT", fmt.Sprintf("{&#34;user&#34;:%d}", newcomer))
	if strings.Contains(page, invite.Code) {
		t.Errorf("it shows the code:\n%s", page)
	}
}

// River's page shows jobs and lets them be run again. It does nothing else to them, since money waits for jobs.
func TestJobsAreNotTakenAway(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO river_job (id, args, kind, max_attempts, queue, state, scheduled_at, finalized_at) VALUES
		(1, '{"action": 41}', 'advance', 1, 'money', 'completed', now(), now()), (2, '{"action": 42}', 'advance', 1, 'money', 'available', now(), NULL)`); err != nil {
		t.Fatal(err)
	}
	p := open(t, w)
	p.wants("/operator/jobs/", http.StatusOK, `<div id="root"`)
	p.wants("/operator/jobs/api/jobs?state=completed", http.StatusOK, `"action":41`)
	p.wants("/operator/jobs/api/states", http.StatusOK, `"available":1`)
	states := func(want string) {
		t.Helper()
		var got string
		if err := w.Pool.QueryRow(w.Ctx, `SELECT string_agg(state::text, ' ' ORDER BY id) FROM river_job`).Scan(&got); err != nil || got != want {
			t.Errorf("jobs are %s, want %s; %v", got, want, err)
		}
	}
	for _, taken := range [][2]string{
		{http.MethodPost, "/operator/jobs/api/jobs/cancel"}, {http.MethodPost, "/operator/jobs/api/jobs/delete"},
		{http.MethodPut, "/operator/jobs/api/queues/money/pause"}, {http.MethodPatch, "/operator/jobs/api/queues/money"},
		{http.MethodPost, "/operator/jobs/api/jobs/retry/../delete"}, {http.MethodPost, "/operator/jobs//api/jobs/delete"},
	} {
		if r, said := p.ask(taken[0], taken[1]); r.StatusCode == http.StatusOK {
			t.Errorf("%s %s: %d %s", taken[0], taken[1], r.StatusCode, said)
		}
	}
	// Another site may make the operator's browser send a request.
	if r, _ := p.ask(http.MethodPost, "/operator/jobs/api/jobs/retry", "Sec-Fetch-Site", "cross-site"); r.StatusCode != http.StatusForbidden {
		t.Errorf("from another site: %d", r.StatusCode)
	}
	states("completed available")
	if r, said := p.ask(http.MethodPost, "/operator/jobs/api/jobs/retry", "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"); r.StatusCode != http.StatusOK {
		t.Errorf("%d %s", r.StatusCode, said)
	}
	states("available available")
}
