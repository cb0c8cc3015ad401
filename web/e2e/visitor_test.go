package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long something may take to be seen, on a machine that is busy.
const patience = 90 * time.Second

// visitor is somebody at a window of their own, who shares nothing with others. What a page must not do fails their test.
type visitor struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	problems []string
	allowed  string // a part of what the console may say after all
}

func (w *world) visitor(t *testing.T) *visitor {
	t.Helper()
	return newVisitor(t, w.browser, w.stack.URL(), chromedp.WithNewBrowserContext())
}

// window is another window of the same person, in the same browser.
func (v *visitor) window() *visitor { v.t.Helper(); return newVisitor(v.t, v.ctx, v.base) }

func newVisitor(t *testing.T, in context.Context, base string, options ...chromedp.ContextOption) *visitor {
	t.Helper()
	v := &visitor{t: t, base: base}
	ctx, end := chromedp.NewContext(in, append(options, chromedp.WithListener(v.watch))...)
	v.ctx = ctx
	t.Cleanup(func() {
		if t.Failed() {
			v.t.Logf("the page said:\n%s", v.text())
		}
		end()
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, p := range v.problems {
			t.Error(p)
		}
	})
	command(v, network.Enable, network.EnableParams{})
	command(v, log.Enable, cdp.Empty{})
	command(v, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	v.size(1000, 800, false)
	return v
}

// watch keeps what no page may do: complain to the console, break, or ask somebody else.
func (v *visitor) watch(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			problem = fmt.Sprintf("console: %s %v", e.Type, e.Args)
		}
	case *runtime.EventExceptionThrown:
		problem = fmt.Sprintf("exception: %+v", *e.ExceptionDetails)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			problem = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *network.EventRequestWillBeSent:
		problem = v.foreign(e.Request.URL)
	case *network.EventWebSocketCreated:
		problem = v.foreign(strings.Replace(e.URL, "ws://", "http://", 1))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if problem != "" && (v.allowed == "" || !strings.Contains(problem, v.allowed)) {
		v.problems = append(v.problems, problem)
	}
}

func (v *visitor) foreign(address string) string {
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "data" || u.Scheme+"://"+u.Host == v.base) {
		return ""
	}
	return "a request to elsewhere: " + address
}

func (v *visitor) run(action chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	if _, err := chromedp.Run(v.ctx, action); err != nil {
		v.t.Fatal(err)
	}
}

// command sends one of the browser's own commands.
func command[P, R any](v *visitor, c cdp.Command[P, R], params P) R {
	v.t.Helper()
	answer, err := chromedp.Call(v.ctx, c, params)
	if err != nil {
		v.t.Fatal(err)
	}
	return answer
}

// size is that of the window, in CSS pixels.
func (v *visitor) size(width, height int64, phone bool) {
	v.t.Helper()
	command(v, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: phone})
}

func (v *visitor) open(path string) {
	v.t.Helper()
	v.run(chromedp.Navigate(v.base + path))
}

// await waits until an expression is true in the page, and returns its value.
func (v *visitor) await(expression string) json.RawMessage {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](fmt.Sprintf(`new Promise((done) => {
		const look = () => { const value = (() => { %s; return (%s) })(); value ? done(value) : setTimeout(look, 15) }
		look()
	})`, words, expression), chromedp.EvalAwaitPromise))
	if err != nil {
		v.t.Fatalf("waited for %s: %v", expression, err)
	}
	return value
}

// words are what expressions can say of a page: what a person sees, by the names that a screen reader tells.
const words = `
	const top = document.querySelector('dialog[open]') ?? document
	const visible = (e) => e.checkVisibility() && !e.disabled
	const called = (e) => (e.getAttribute('aria-label') ?? e.textContent).trim()
	const button = (name) => [...top.querySelectorAll('main :is(button, a)'), ...top.querySelectorAll('button, a')].find((e) => visible(e) && called(e).startsWith(name))
	const heading = (text) => [...document.querySelectorAll('h1, h2, h3')].some((e) => e.textContent.includes(text))
	const field = (name) => [...top.querySelectorAll('input, textarea, select')].find((e) => visible(e) &&
		(e.getAttribute('aria-label') ?? e.closest('label')?.textContent ?? '').trim().startsWith(name))
	const says = (text) => document.body.innerText.includes(text)
	const place = (e) => { if (!e) return null; e.scrollIntoView({ block: 'center' }); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] }
	const still = (e) => {
		const at = place(e), before = window.placed
		window.placed = String(at)
		if (!at || before !== String(at)) return null
		window.hit = false
		e.addEventListener('click', () => (window.hit = true), { capture: true, once: true })
		return at
	}
	const state = () => document.querySelector('dialog[open] .state')?.dataset.state
	const qr = () => document.querySelector('dialog[open] img.qr')
	const zapped = (item, part) => document.querySelector('#item-' + item + ' .zap .' + part)?.textContent
`

func quoted(text string) string {
	raw, _ := json.Marshal(text) // strings always encode
	return string(raw)
}

func (v *visitor) sees(text string) { v.t.Helper(); v.await("says(" + quoted(text) + ")") }

// clickAt clicks where the element is, as a person would: once it has stopped moving, and again where it moved away after all.
func (v *visitor) clickAt(element string) {
	v.t.Helper()
	for range 10 {
		var at [2]float64
		if err := json.Unmarshal(v.await("still("+element+")"), &at); err != nil {
			v.t.Fatal(err)
		}
		v.run(chromedp.MouseClickXY(at[0], at[1]))
		if string(v.await("[window.hit]")) == "[true]" {
			return
		}
	}
	v.t.Fatalf("%s moves away from every click", element)
}

// press clicks the button or link whose name begins so.
func (v *visitor) press(name string) { v.t.Helper(); v.clickAt("button(" + quoted(name) + ")") }

// counted has a page count its requests that are not answered yet.
const counted = `{
	const ask = window.fetch
	window.unanswered = 0
	window.fetch = (...what) => {
		window.unanswered++
		return ask(...what).finally(() => window.unanswered--)
	}
}`

// pressAtRest clicks it at a moment at which every request of the page is answered. Nothing can be asked for between the look and the click,
// as could be before a click of the mouse. The page must be counted.
func (v *visitor) pressAtRest(name string) {
	v.t.Helper()
	v.await("window.unanswered === 0 && button(" + quoted(name) + ") && (button(" + quoted(name) + ").click(), true)")
}

// fill writes into the field whose label begins so, in place of what it holds.
func (v *visitor) fill(label, text string) {
	v.t.Helper()
	v.clickAt("field(" + quoted(label) + ")")
	v.await("(document.activeElement.select(), true)")
	command(v, input.InsertText, input.InsertTextParams{Text: text})
}

// invoice is what the dialog asks to be paid, once its code is drawn.
func (v *visitor) invoice() (bolt11 string) {
	v.t.Helper()
	v.await("qr()?.complete && qr().naturalWidth > 0")
	if err := json.Unmarshal(v.await("document.querySelector('dialog .bolt11').value"), &bolt11); err != nil {
		v.t.Fatal(err)
	}
	return bolt11
}

// text is all that is to be read on the page.
func (v *visitor) text() string {
	text, err := chromedp.Run(v.ctx, chromedp.Evaluate[string]("location.pathname + '\\n' + document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// signIn signs a visitor up by the page.
func (v *visitor) signIn(name string) {
	v.t.Helper()
	v.open("/settings")
	v.fill("Name", name)
	v.press("Sign up")
	v.sees("You are " + name)
}

// key is that of whoever has signed in.
func (v *visitor) key() (key string) {
	v.t.Helper()
	if err := json.Unmarshal(v.await("localStorage.getItem('holdfast.key')"), &key); err != nil {
		v.t.Fatal(err)
	}
	return key
}

// inject runs a script ahead of those of each page that is opened from now on.
func (v *visitor) inject(script string) {
	v.t.Helper()
	command(v, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// post begins a post, and returns the invoice that it is to be paid by.
func (v *visitor) post(title string) (bolt11 string) {
	v.t.Helper()
	v.open("/post")
	v.fill("Title", title)
	v.press("Post")
	return v.invoice()
}

// item is the number of the item whose page is shown.
func (v *visitor) item() (id string) {
	v.t.Helper()
	if err := json.Unmarshal(v.await("location.pathname.startsWith('/items/') && location.pathname.split('/')[2]"), &id); err != nil {
		v.t.Fatal(err)
	}
	return id
}
