package e2e

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// lostAnswer breaks the connection after the service has answered, the first time that something is bought.
func lostAnswer(t *testing.T, w *world) {
	v := w.visitor(t)
	v.signIn("unlucky")
	v.open("/wallet/credits")
	v.allowed = "ERR_CONNECTION_RESET"
	command(v, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: "*/graphql", RequestStage: fetch.RequestStageResponse}}})
	var lost atomic.Bool
	paused := chromedp.Events(v.ctx, fetch.RequestPaused)
	go func() {
		for e, err := range paused {
			if err != nil {
				return
			}
			if asksFor(e.Request, "buyCredits") && lost.CompareAndSwap(false, true) {
				_, _ = chromedp.Call(v.ctx, fetch.FailRequest, fetch.FailRequestParams{RequestID: e.RequestID, ErrorReason: network.ErrorReasonConnectionReset})
				continue
			}
			_, _ = chromedp.Call(v.ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID}) // the page may have gone
		}
	}()
	v.fill("Credits", "300")
	v.press("Buy")
	v.press("Pay with the demo wallet")
	v.await("state() === 'PAID'")
	v.sees("300 credits")
	if !lost.Load() {
		t.Error("no answer was lost")
	}
	key := v.key()
	var bought struct {
		PaidActions struct{ Nodes []struct{ ID string } }
	}
	w.ask(t, key, `{ paidActions { nodes { id } } }`, &bought)
	if n := len(bought.PaidActions.Nodes); n != 1 {
		t.Errorf("%d actions were begun, not one", n)
	}
}

func asksFor(r *network.Request, what string) bool {
	for _, entry := range r.PostDataEntries {
		if bytes.Contains(entry.Bytes, []byte(what)) {
			return true
		}
	}
	return false
}

// keyboard zaps without a mouse: the dialog takes the focus, keeps it, and gives it back.
func keyboard(t *testing.T, w *world) {
	item := w.give(t, w.signUp(t, "typist"), `createPost(title: "Reached with the keyboard", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.open("/items/" + item)
	v.await("heading('Reached with the keyboard')")
	key := func(keys string) { v.t.Helper(); v.run(chromedp.KeyEvent(keys)) }
	for range 40 {
		key(kb.Tab)
		if string(v.await("[document.activeElement.classList.contains('zap')]")) == "[true]" {
			break
		}
	}
	key(kb.Enter)
	v.invoice()
	v.await("document.activeElement.closest('dialog[open]')")
	// A screen reader says what it is for, and what it asks.
	v.await("top.getAttribute('aria-labelledby') && document.getElementById(top.getAttribute('aria-labelledby')).textContent === 'Zap of 10 sats'")
	v.await("top.getAttribute('aria-describedby') && document.getElementById(top.getAttribute('aria-describedby')).textContent.startsWith('Pay 10 sats.')")
	for range 12 {
		key(kb.Tab)
	}
	v.await("document.activeElement.closest('dialog[open]') || document.activeElement === document.body")
	key(kb.Escape)
	v.await("!document.querySelector('dialog[open]') && document.activeElement.classList.contains('zap')")
}

//go:embed testdata/axe.min.js
var axe string

// everyPage looks at every page as its readers do: in light and in dark, on a phone, and with axe, which knows what readers with a screen
// reader need. With HOLDFAST_SHOTS it leaves a picture of each in that directory.
func everyPage(t *testing.T, w *world) {
	author := w.signUp(t, "painter")
	w.give(t, author, `territoryCreate(name: "gallery", description: "Pictures, and talk about them.", baseCostSats: 5, replyCostSats: 1, billing: MONTHLY)`)
	item := w.give(t, author, `createLink(title: "A stone bridge, and why it still stands", url: "https://example.org/bridge", body: "Look at the **arch**.", territory: "gallery", paymentMethod: OPTIMISTIC)`)
	w.give(t, "", `createComment(parent: "`+item+`", body: "> Look at the arch.\n\nThe stones carry each other.")`)
	v := w.visitor(t)
	for _, p := range []struct{ name, path, text string }{
		{"signed-out", "/settings", "New here"},
		{"not-here", "/no/such/page", "Not found"},
		{"unreadable", "/%ff", "Not found"},
	} {
		v.allowed = "404" // the status of the last two
		v.open(p.path)
		v.sees(p.text)
		look(v, p.name)
	}
	v.signIn("looker")
	for _, p := range []struct{ name, path, text string }{
		{"feed", "/", "A stone bridge"},
		{"new", "/new", "A stone bridge"},
		{"item", "/items/" + item, "The stones carry each other"},
		{"post", "/post", "Price now: 1 sat"},
		{"territories", "/territories", "gallery"},
		{"territory", "/t/gallery", "A stone bridge"},
		{"profile", "/u/painter", "A stone bridge"},
		{"own-profile", "/u/looker", "History"},
		{"wallet", "/wallet", "History"},
		{"credits", "/wallet/credits", "Price: 1,000 sats"},
		{"withdraw", "/wallet/withdraw", "Most that routing may cost"},
		{"receiving", "/wallet/receiving", "Add a wallet"},
		{"notifications", "/notifications", "Nothing yet."},
		{"settings", "/settings", "Days until invoices"},
	} {
		v.open(p.path)
		v.sees(p.text)
		v.await("!says('Loading…')")
		look(v, p.name)
	}
	v.open("/items/" + item)
	v.press("Zap 10 sats")
	v.invoice()
	look(v, "paying")
	v.press("Cancel this payment")
	v.await("state() === 'FAILED'")
	look(v, "failed")
	v.press("Close")
	v.open("/wallet")
	v.sees("not paid")
	look(v, "history")
}

// look holds a page to what all pages promise. In the dark the colours alone are others.
func look(v *visitor, name string) {
	v.t.Helper()
	v.run(chromedp.Evaluate[chromedp.Void](axe))
	for scheme, rules := range map[string]string{"light": "", "dark": "runOnly: ['color-contrast']"} {
		command(v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		var found []struct {
			ID, Impact, Help string
			Nodes            []struct{ HTML, FailureSummary string }
		}
		raw, err := chromedp.Run(v.ctx, chromedp.Evaluate[[]byte](`axe.run({ resultTypes: ['violations'], `+rules+` }).then((r) => r.violations.map((f) => (
			{ id: f.id, impact: f.impact, help: f.help, nodes: f.nodes.map((n) => ({ html: n.html, failureSummary: n.failureSummary })) })))`, chromedp.EvalAwaitPromise))
		if err == nil {
			err = json.Unmarshal(raw, &found)
		}
		if err != nil {
			v.t.Fatal(err)
		}
		for _, f := range found {
			if f.Impact == "serious" || f.Impact == "critical" {
				v.t.Errorf("%s, %s: axe: %s (%s): %+v", name, scheme, f.Help, f.Impact, f.Nodes)
			}
		}
		shoot(v, name+"-"+scheme)
	}
	v.size(360, 740, true)
	if wide := string(v.await("[document.documentElement.scrollWidth, innerWidth]")); wide != "[360,360]" {
		v.t.Errorf("%s is %s pixels wide on a phone", name, wide)
	}
	shoot(v, name+"-phone")
	v.size(1000, 800, false)
	command(v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
}

// shots names the directory for pictures; without it none are taken.
const shots = "HOLDFAST_SHOTS"

func shoot(v *visitor, name string) {
	v.t.Helper()
	dir := os.Getenv(shots)
	if dir == "" {
		return
	}
	picture := command(v, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture.Data, 0o644); err != nil {
		v.t.Fatal(err)
	}
}
