package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// deafLine lets a test make a page's connection silent: it says nothing more, not even that it has ended. It can also let the page's clock
// go forward.
const deafLine = `{
	window.WebSocket = class extends WebSocket {
		constructor(...to) { super(...to); window.line = this }
		set onmessage(hear) { super.onmessage = (event) => this.deaf || hear(event) }
		set onclose(end) { super.onclose = (event) => this.deaf || end(event) }
	}
	const now = Date.now
	window.later = 0
	Date.now = () => now() + window.later
}`

// silentLine loses the connection as a telephone does that changes its network: nobody says so. The payment is seen all the same.
func silentLine(t *testing.T, w *world) {
	v := w.visitor(t)
	v.inject(deafLine)
	bolt11 := v.post("Paid while the line was silent")
	v.await("line.readyState === WebSocket.OPEN && (line.deaf = true)")
	w.pay(t, bolt11)
	v.await("(window.later = 60_000)") // the service pings every 20 seconds
	v.await("state() === 'PAID'")
}

// refusedOnce has the first subscription of a page end as the service ends it while its database is away, or while too
// much is followed from the same address.
const refusedOnce = `window.WebSocket = class extends WebSocket {
	set onmessage(hear) {
		super.onmessage = (event) => {
			const { id } = JSON.parse(event.data)
			if (id && !window.refused) {
				window.refused = id
				hear({ data: JSON.stringify({ id, type: 'error', payload: [{ message: 'Try again in a moment.', extensions: { code: 'CODE' } }] }) })
			} else if (!id || id !== window.refused) hear(event)
		}
	}
}`

// refusedFollowing has the service refuse to tell of a payment, as it may when the page connects again. The payment is seen all the same.
func refusedFollowing(t *testing.T, w *world) {
	for _, code := range []string{"TRY_AGAIN", "OPERATION_LIMIT_EXCEEDED"} {
		v := w.visitor(t)
		v.inject(strings.Replace(refusedOnce, "CODE", code, 1))
		bolt11 := v.post("Paid while nobody could tell: " + code)
		v.await("window.refused")
		w.pay(t, bolt11)
		v.await("state() === 'PAID'")
	}
}

// waitingPayment closes the dialog of a payment, and comes back to it from each place that offers it. The page is not loaded again meanwhile.
func waitingPayment(t *testing.T, w *world) {
	v := w.visitor(t)
	v.signIn("absentminded")
	first := v.post("Looked at before it is paid")
	away := func() { v.t.Helper(); v.press("Close"); v.await("!document.querySelector('dialog[open]')") }
	away()
	v.await("heading('Looked at before it is paid')")
	v.press("Pay") // on the item's page
	if v.invoice() != first {
		t.Error("another invoice is shown")
	}
	away()
	v.press("0 credits") // the wallet, in the head of the page
	v.sees("History")
	v.press("Show")
	if v.invoice() != first {
		t.Error("another invoice is shown")
	}
	away()

	key := v.key()
	var begun struct {
		PaidActions struct{ Nodes []struct{ ID string } }
	}
	w.ask(t, key, `{ paidActions { nodes { id } } }`, &begun)
	w.ask(t, key, `mutation { cancelInvoice(id: "`+begun.PaidActions.Nodes[0].ID+`") { id } }`, &struct{}{})
	v.press("Notifications")
	v.sees("Not paid: Post or comment")
	v.press("Try again")
	w.pay(t, v.invoice())
	v.await("state() === 'PAID'")
}

// busyAtFirst has the service tell of no action when the page asks for it the first time.
const busyAtFirst = `{
	const ask = window.fetch, known = new Set()
	window.fetch = async (to, what) => {
		const { query, variables } = JSON.parse(what?.body ?? '{}')
		if (!query?.includes('paidAction(') || known.has(variables.id)) return ask(to, what)
		known.add(variables.id)
		return new Response(JSON.stringify({ errors: [{ message: 'Busy.', extensions: { code: 'TRY_AGAIN' } }] }))
	}
}`

// waitingLongest begins a post without signing in, and then others, which it gives up. A page that is loaded anew shows the
// one that still waits, also where another one is not found, and where the service cannot tell of them for a moment. What
// has ended is forgotten.
func waitingLongest(t *testing.T, w *world) {
	v := w.visitor(t)
	v.inject(busyAtFirst)
	v.open("/territories")
	secrets := func(ids string) {
		t.Helper()
		v.await("Object.keys(sessionStorage).filter((name) => name.startsWith('holdfast.secret:')).map((name) => name.split(':')[1]).sort().join() === " + quoted(ids))
	}
	keep := func(id, secret string) {
		t.Helper()
		v.await("(sessionStorage.setItem(" + quoted("holdfast.secret:"+id) + ", " + quoted(secret) + "), true)")
	}
	var waiting string
	for i := range 7 {
		var begun struct{ CreatePost struct{ ID, Secret string } }
		w.ask(t, "", fmt.Sprintf(`mutation { createPost(title: "Begun by nobody %d") { id secret } }`, i), &begun)
		id, secret := begun.CreatePost.ID, begun.CreatePost.Secret
		keep(id, secret)
		if i == 0 {
			waiting = id
			continue
		}
		mine := fmt.Sprintf("(id: %q, secret: %q)", id, secret)
		w.ask(t, "", "mutation { cancelInvoice"+mine+" { id } }", &struct{}{})
		w.awaits(t, "", mine, "FAILED")
	}
	keep("0", "that of nothing")
	v.open("/territories")
	v.press("Pay 10 sats")
	bolt11 := v.invoice()
	secrets("0," + waiting)
	w.pay(t, bolt11)
	v.await("state() === 'PAID'")
	secrets("0")
}

// unansweredRetry has the service try a payment again, and not tell whether it did.
const unansweredRetry = `{
	const ask = window.fetch
	window.fetch = async (to, what) => {
		const answer = await ask(to, what)
		if (!String(what?.body).includes('retryPaidAction')) return answer
		return new Response(JSON.stringify({ errors: [{ message: 'Busy.', extensions: { code: 'TRY_AGAIN' } }] }))
	}
}`

// lostAttempt tries a payment again, and the answer to that is lost: the attempt that was begun is shown, and no trouble
// beside it.
func lostAttempt(t *testing.T, w *world) {
	v := w.visitor(t)
	v.inject(unansweredRetry)
	first := v.post("Tried again without an answer")
	v.press("Cancel this payment")
	v.await("state() === 'FAILED'")
	v.press("Try again")
	second := v.invoice()
	if second == first {
		t.Error("the invoice that was cancelled is shown again")
	}
	v.await("!document.querySelector('dialog [role=alert]')")
	w.pay(t, second)
	v.await("state() === 'PAID'")
}

// slowAnswer has the service be busy when something is bought, and then take its time until the test releases it.
const slowAnswer = `{
	const ask = window.fetch
	let asked = 0
	window.fetch = async (to, what) => {
		if (!String(what?.body).includes('buyCredits')) return ask(to, what)
		if (++asked === 1) return new Response(JSON.stringify({ errors: [{ message: 'Busy.', extensions: { code: 'TRY_AGAIN' } }] }))
		await new Promise((go) => (window.release = go))
		return ask(to, what)
	}
}`

// closedWhileAsking closes the dialog, and then goes back to the page before, while the payment goes on: it waits at the
// bottom of the page. One that is opened again at once stays open.
func closedWhileAsking(t *testing.T, w *world) {
	v := w.visitor(t)
	v.inject(slowAnswer)
	v.signIn("hasty")
	v.open("/wallet")
	v.press("Buy credits")
	v.fill("Credits", "70")
	v.press("Buy")
	v.press("Ask again")
	v.await("window.release")
	v.press("Close")
	v.await("!document.querySelector('dialog[open]')")
	v.await("(release(), true)")
	v.press("Pay 70 sats")
	bolt11 := v.invoice()
	v.await("(history.back(), true)")
	v.await("location.pathname === '/wallet' && !document.querySelector('dialog[open]')")
	v.press("Pay 70 sats")
	if v.invoice() != bolt11 {
		t.Error("another invoice is shown")
	}
	v.await(openedAgain)
	v.await("window.told")
	if v.invoice() != bolt11 {
		t.Error("another invoice is shown than before it was closed")
	}
}

// openedAgain closes the dialog, and opens it again before the browser tells the page that it was closed.
const openedAgain = `(() => {
	document.querySelector('dialog').addEventListener('close', () => setTimeout(() => (window.told = true), 100))
	button('Close').click()
	queueMicrotask(() => [...document.querySelectorAll('button')].find((e) => called(e) === 'Pay 70 sats').click())
	return true
})()`

// silence has the service not answer the first time that something is bought, until the test says that the page has waited
// for window.patience milliseconds, and the second time until the test releases it.
const silence = `{
	const ask = window.fetch, limits = new WeakMap()
	let asked = 0
	AbortSignal.timeout = (patience) => {
		const limit = new AbortController()
		limits.set(limit.signal, { patience, over: () => limit.abort() })
		return limit.signal
	}
	window.fetch = async (to, what) => {
		if (!String(what?.body).includes('buyCredits')) return ask(to, what)
		if (++asked === 1) return new Promise((_, lost) => {
			Object.assign(window, limits.get(what.signal))
			what.signal.addEventListener('abort', () => lost(what.signal.reason))
		})
		await new Promise((go) => (window.release = go))
		return ask(to, what)
	}
}`

// silentService buys credits when no answer comes: the page shows that it asks, and does so once more, after the service
// can no longer answer. Whoever closes the dialog meanwhile finds the payment at the bottom of the page.
func silentService(t *testing.T, w *world) {
	v := w.visitor(t)
	v.inject(silence)
	v.signIn("unanswered")
	v.open("/wallet/credits")
	v.fill("Credits", "70")
	v.press("Buy")
	v.sees("Asking…")
	v.await("window.patience === 40_000")
	v.await("(over(), true)")
	v.await("window.release")
	v.sees("Asking…")
	v.press("Close")
	v.await("!document.querySelector('dialog[open]')")
	v.await("(release(), true)")
	v.press("Pay 70 sats")
	w.pay(t, v.invoice())
	v.await("state() === 'PAID'")
}

// wayOut follows the link that a refused request offers, if there is one that helps: credits would not, since they cannot be withdrawn.
func wayOut(t *testing.T, w *world) {
	bolt11, err := w.stack.Network.Node("receiver").Invoice(t.Context(), 21_000, "too much")
	if err != nil {
		t.Fatal(err)
	}
	v := w.visitor(t)
	v.signIn("penniless")
	v.open("/wallet/withdraw")
	v.fill("Invoice, lightning address or LNURL", bolt11)
	v.press("Withdraw")
	v.sees("Your sats do not cover this and the most that routing may cost.")
	v.await("!button('Buy credits')")

	v.await("(localStorage.setItem('holdfast.key', 'no such key'), true)")
	v.allowed = "401" // the browser tells of it as well
	v.open("/post")
	v.fill("Title", "By nobody who is known")
	v.press("Post")
	v.sees("This key is not known")
	v.press("Sign in")
	v.await("location.pathname === '/settings' && !document.querySelector('dialog[open]')")
}

// twoWindows signs out in one window: nobody goes on with the key in the other.
func twoWindows(t *testing.T, w *world) {
	v := w.visitor(t)
	v.signIn("twice")
	other := v.window()
	other.open("/settings")
	other.sees("You are twice")
	v.press("Sign out")
	v.sees("With a key")
	other.sees("With a key")
}

// lateAnswer has the first request to buy something wait until the test releases it. Then its connection is lost, or its
// answer comes. The page tells when it has waited for half a second, after which it asks again.
const lateAnswer = `{
	const ask = window.fetch, wait = window.setTimeout
	window.asked = 0
	window.fetch = async (to, what) => {
		if (!String(what?.body).includes('buyCredits') || ++window.asked > 1) return ask(to, what)
		const lost = await new Promise((go) => (window.release = go))
		if (lost) throw new TypeError('lost')
		const answer = new Response(await (await ask(to, what)).text())
		wait(() => (window.over = true), 100)
		return answer
	}
	window.setTimeout = (then, after, ...more) => wait(() => { then(...more); if (after === 500) window.over = true }, after)
}`

// anotherPayer signs out while a purchase has no answer yet, and somebody else signs in at the same window: they are
// neither asked to pay for it nor charged.
func anotherPayer(t *testing.T, w *world) {
	for i, lost := range []string{"true", "false"} {
		v := w.visitor(t)
		v.inject(lateAnswer)
		v.signIn(fmt.Sprint("leaving", i))
		v.open("/wallet")
		v.press("Buy credits")
		v.fill("Credits", "70")
		v.press("Buy")
		v.await("window.release")
		other := v.window()
		other.open("/settings")
		other.press("Sign out")
		v.press("Sign in")
		v.fill("Name", fmt.Sprint("coming", i))
		v.press("Sign up")
		v.sees(fmt.Sprint("You are coming", i))
		v.await("(release(" + lost + "), true)")
		v.await("window.over && window.asked === 1")
		v.press("0 credits") // no dialog is in the way
		v.sees("History")
		var begun struct {
			PaidActions struct{ Nodes []struct{ ID string } }
		}
		if w.ask(t, v.key(), `{ paidActions { nodes { id } } }`, &begun); len(begun.PaidActions.Nodes) != 0 {
			t.Errorf("somebody else is to pay: %v", begun.PaidActions.Nodes)
		}
	}
}

// unpriced has the service not tell yet what writing costs.
const unpriced = `{
	const ask = window.fetch
	window.fetch = async (to, what) => {
		if (String(what?.body).includes('itemPriceMsat')) await (window.told ??= new Promise((go) => (window.tell = go)))
		return ask(to, what)
	}
}`

// priceFirst writes before the price has come: nobody agrees to a price that they have not seen, which can be any.
func priceFirst(t *testing.T, w *world) {
	item := w.give(t, w.signUp(t, "asking"), `createPost(title: "To be answered", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.inject(unpriced)
	v.signIn("quick")
	for page, form := range map[string][2]string{"/post": {"Title", "Post"}, "/items/" + item: {"Your comment", "Comment"}} {
		v.open(page)
		v.fill(form[0], "Written in a hurry")
		v.await("window.tell && !button('" + form[1] + "')")
		v.await("(tell(), true)")
		v.sees("Price now: 1 sat")
		v.press(form[1])
		v.await("state() === 'PENDING'")
	}
}

// writtenMeanwhile pays for what was written when the next thing is being written already: that stays as it is, and so
// does the page.
func writtenMeanwhile(t *testing.T, w *world) {
	item := w.give(t, w.signUp(t, "prompting"), `createPost(title: "To be answered twice", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	payLater := func(bolt11 string, meanwhile func()) {
		t.Helper()
		v.press("Close")
		v.sees("is not paid yet.")
		meanwhile()
		w.pay(t, bolt11)
		v.await("!document.querySelector('aside.waiting')")
	}
	write := func(field, text string) func() { return func() { t.Helper(); v.fill(field, text) } }

	payLater(v.post("Paid while the next is written"), write("Title", "The next"))
	v.await("location.pathname === '/post' && field('Title').value === 'The next'")
	payLater(v.post("Paid from elsewhere"), func() { t.Helper(); v.press("Territories") })
	v.await("location.pathname === '/territories'")

	v.signIn("writing")
	v.open("/items/" + item)
	v.fill("Your comment", "Written first")
	v.press("Comment")
	payLater(v.invoice(), write("Your comment", "Written next"))
	v.await("field('Your comment').value === 'Written next'")
}

// lateRecall has a page learn late what its visitor had begun before it was opened.
const lateRecall = `{
	const ask = window.fetch, wait = window.setTimeout
	let asked = 0
	window.fetch = async (to, what) => {
		if (!String(what?.body).includes('paidActions(first: 20)') || ++asked > 1) return ask(to, what)
		const answer = new Response(await (await ask(to, what)).text())
		await new Promise((go) => (window.release = go))
		wait(() => (window.over = true), 100)
		return answer
	}
}`

// anothersPast signs out before the page has learned what waits to be paid: it does not wait for whoever signs in next.
func anothersPast(t *testing.T, w *world) {
	key := w.signUp(t, "indebted")
	w.ask(t, key, `mutation { createPost(title: "Not paid yet", paymentMethod: OPTIMISTIC) { id } }`, &struct{}{})
	v := w.visitor(t)
	v.inject(lateRecall)
	v.open("/settings")
	v.await("(localStorage.setItem('holdfast.key', " + quoted(key) + "), true)")
	v.open("/wallet")
	v.await("window.release")
	other := v.window()
	other.allowed = "WebSocket is closed before" // it begins to follow the payment, and is signed out at once
	other.open("/settings")
	other.press("Sign out")
	v.press("Sign in")
	v.fill("Name", "successor")
	v.press("Sign up")
	v.sees("You are successor")
	v.await("(release(), true)")
	v.await("window.over")
	v.press("0 credits")
	v.sees("History")
	v.await("!document.querySelector('aside.waiting')")
}

// nothingLeft signs out while the service has not said what became of a purchase: whoever comes next finds no key.
func nothingLeft(t *testing.T, w *world) {
	v := w.visitor(t)
	v.inject(slowAnswer)
	v.signIn("leaver")
	key := v.key()
	v.open("/wallet")
	v.press("Buy credits")
	v.fill("Credits", "70")
	v.press("Buy")
	v.sees("Busy.")
	v.open("/settings")
	v.press("Sign out")
	v.sees("With a key")
	v.await("![localStorage, sessionStorage].some((kept) => JSON.stringify({ ...kept }).includes(" + quoted(key) + "))")
}

// closedGateway carries out what is zapped, and says that it was not willing to wait for the answer, until the test opens it
// in this window.
const closedGateway = `{
	const ask = window.fetch
	window.fetch = async (to, what) => {
		const answer = await ask(to, what)
		if (!String(what?.body).includes('zap(') || sessionStorage.getItem('open')) return answer
		return new Response(JSON.stringify({ message: 'timed out' }), { status: 504 })
	}
}`

// kinds are those of what was begun with a key, the latest first.
func (w *world) kinds(t *testing.T, key string) string {
	t.Helper()
	var begun struct {
		PaidActions struct{ Nodes []struct{ Kind string } }
	}
	w.ask(t, key, `{ paidActions { nodes { kind } } }`, &begun)
	return fmt.Sprint(begun.PaidActions.Nodes)
}

// keyEnded zaps from credits, the answer is lost, and then the key is revoked. That says nothing of the zap, and neither
// does the page. Signed in with another key, its payer zaps again: it is the same zap.
func keyEnded(t *testing.T, w *world) {
	item := w.give(t, w.signUp(t, "awaited"), `createPost(title: "Zapped before the key ended", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.inject(closedGateway)
	v.signIn("interrupted")
	key := v.key()
	w.give(t, key, `buyCredits(credits: 50)`)
	v.open("/items/" + item)
	v.press("Zap 10 sats")
	const open = "It is not known whether this went through."
	v.sees(open)
	w.ask(t, key, `mutation { signOut { id } }`, &struct{}{})
	v.allowed = "401" // the browser tells of it as well
	v.await("(sessionStorage.setItem('open', 'yes'), true)")
	v.press("Ask again")
	v.sees("This key is not known, has expired, or was revoked.")
	v.sees(open)
	v.await("!says('nothing was charged')")

	v.press("Sign in")
	v.press("Sign out")
	made, err := w.stack.ServiceCommand(t.Context(), "users", "key", "interrupted", "--scopes", "READ,SPEND", "--json").Output()
	var another struct{ Key string }
	if err == nil {
		err = json.Unmarshal(made, &another)
	}
	if err != nil {
		t.Fatal(err)
	}
	v.fill("API key", another.Key)
	v.clickAt("[...document.querySelectorAll('form button')].at(-1)")
	v.sees("40 credits")
	v.open("/items/" + item)
	v.press("Zap 10 sats")
	v.sees("Zap of 10 sats: paid from your credits.")
	if got := w.kinds(t, another.Key); got != "[{ZAP} {BUY_CREDITS}]" {
		t.Errorf("begun: %s", got)
	}
}

// nextDay zaps from credits, the answer is lost, and nobody asks for it. A day later the same is wanted once more: the
// answer is what was done then, and the page says so. After that it is done once more.
func nextDay(t *testing.T, w *world) {
	item := w.give(t, w.signUp(t, "daily"), `createPost(title: "Zapped every day", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.inject(deafLine)
	v.inject(closedGateway)
	v.signIn("forgetful")
	w.give(t, v.key(), `buyCredits(credits: 50)`)
	v.open("/items/" + item)
	v.press("Zap 10 sats")
	v.sees("It is not known whether this went through.")
	v.press("Close")
	v.await("!document.querySelector('dialog[open]')")
	v.await("(sessionStorage.setItem('open', 'yes'), window.later = 86_400_000)")
	v.press("Zap 10 sats")
	v.await("state() === 'PAID'")
	v.sees("This was begun 1 d ago already, and nothing more was paid now.")
	if got := w.kinds(t, v.key()); got != "[{ZAP} {BUY_CREDITS}]" {
		t.Errorf("begun: %s", got)
	}
	v.press("Done")
	v.await("!document.querySelector('dialog[open]') && (window.later += 60_000)") // at once it would be a double tap
	v.press("Zap 10 sats")
	v.sees("Zap of 10 sats: paid from your credits.")
	if got := w.kinds(t, v.key()); got != "[{ZAP} {ZAP} {BUY_CREDITS}]" {
		t.Errorf("begun: %s", got)
	}
}

// failedMeanwhile buys credits, and the answer is lost. When they are wanted once more, long after, what was begun then has
// failed: they are asked for anew.
func failedMeanwhile(t *testing.T, w *world) {
	v := w.visitor(t)
	v.inject(deafLine)
	v.inject(strings.Replace(closedGateway, "zap(", "buyCredits(", 1))
	v.signIn("absent")
	v.open("/wallet/credits")
	v.fill("Credits", "70")
	v.press("Buy")
	v.sees("It is not known whether this went through.")
	v.open("/wallet")
	v.press("Pay 70 sats")
	v.press("Cancel this payment")
	v.await("state() === 'FAILED'")
	v.open("/wallet/credits")
	v.fill("Credits", "70")
	v.await("(sessionStorage.setItem('open', 'yes'), window.later = 86_400_000)")
	v.press("Buy")
	w.pay(t, v.invoice())
	v.await("state() === 'PAID' && !says('nothing more was paid')")
}
