package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth/keyauthtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// TestClient is what people do, each scenario at windows of its own.
func TestClient(t *testing.T) {
	w := start(t)
	for _, scenario := range []struct {
		name string
		play func(*testing.T, *world)
	}{
		{"signs in by name and by key", signsIn},
		{"signs in by a wallet", signsInByWallet},
		{"what is wanted of one's invoices is kept", privacy},
		{"an anonymous post is paid by its code", anonymousPost},
		{"a zap is seen by its payer alone until it is paid, then by all", optimisticZap},
		{"how much one tap zaps is seen, and not left to others", amountPerTap},
		{"what was not paid is tried again", failedAndRetried},
		{"a price that has risen is asked about before it is paid", dearer},
		{"who gets a share of a zap is shown to who gives it", sharedZaps},
		{"a zap goes straight to its receiver's wallet", zapToWallet},
		{"where a receiver could not be paid the next attempt is shown", nextAttempt},
		{"the next attempt is shown to who has left before it", leftAtFailed},
		{"what a next attempt takes from a balance is told", paidUnasked},
		{"a next attempt whose answer was lost is shown", lostAttempt},
		{"credits are bought, and zap with one tap", credits},
		{"sats are withdrawn", withdrawal},
		{"how much a withdrawal sends is seen before it is begun", amountToWithdraw},
		{"a withdrawal that is under way is shown until it is over", withdrawalUnderWay},
		{"the browser's own wallet pays", browsersWallet},
		{"what the browser does not copy is not said to be copied", copying},
		{"while a wallet pays, nothing else is offered to pay with", oneWayAtATime},
		{"an invoice that runs out is seen to, and followed by the next", inTime},
		{"a long thread is read to its end", longThread},
		{"a long list is read to its end", longList},
		{"an answer that takes longer than the next look is shown", slowService},
		{"what people write turns nothing round beside it", turnedRound},
		{"a first visit is fast, small and still", firstVisit},
		{"what has no answer yet is shown, and asked for again", silentService},
		{"an answer that was lost is asked for again, and nothing is paid twice", lostAnswer},
		{"what a gateway answers is no answer, and nothing is paid twice", gatewaysAnswer},
		{"what was asked for is not paid twice by another key of its payer", keyEnded},
		{"what was done long before it is asked for again is said to be", nextDay},
		{"what failed long before it is asked for again is asked for anew", failedMeanwhile},
		{"a connection that is gone without a word is made again", silentLine},
		{"a payment that the service cannot tell of for a moment is followed on", refusedFollowing},
		{"a payment that waits is shown by whatever asks for it", waitingPayment},
		{"what waits is found by who has not signed in", waitingLongest},
		{"what is asked for goes on without its dialog", closedWhileAsking},
		{"a dialog ends where its way out leads elsewhere", wayOut},
		{"who signs out in one window is signed out in the others", twoWindows},
		{"nobody agrees to a price that has not been shown", priceFirst},
		{"paying for what was written leaves alone what is being written", writtenMeanwhile},
		{"who signs out leaves no key behind", nothingLeft},
		{"who signs out leaves nothing for others to pay", anotherPayer},
		{"who signs out is not remembered to others", anothersPast},
		{"everything is done by keyboard", keyboard},
		{"every page can be used by everybody", everyPage},
		{"operators see how the service stands", operatorsPages},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.play(t, w)
		})
	}
}

func signsIn(t *testing.T, w *world) {
	v := w.visitor(t)
	v.signIn("newcomer")
	v.press("Sign out")
	v.sees("With a key")
	v.fill("API key", "no such key")
	v.allowed = "401" // the browser tells of it as well
	v.clickAt("[...document.querySelectorAll('form button')].at(-1)")
	v.sees("This key is not known")
	v.fill("API key", w.signUp(t, "regular"))
	v.clickAt("[...document.querySelectorAll('form button')].at(-1)")
	v.sees("regular")
	v.sees("0 credits")
}

func signsInByWallet(t *testing.T, w *world) {
	v := w.visitor(t)
	v.inject(counted)
	v.open("/settings")
	v.press("Show a code")
	v.await("document.querySelector('main img.qr')?.naturalWidth > 0")
	var link string
	if err := json.Unmarshal(v.await(`document.querySelector('main a[href^="lightning:"]').href`), &link); err != nil {
		t.Fatal(err)
	}
	answer, err := keyauthtest.Wallet("somebody's").Answer(strings.TrimPrefix(link, "lightning:"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(answer.String())
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("the wallet's answer: %v, %v", response, err)
	}
	response.Body.Close()
	v.sees("user_") // who did not say a name has one that was drawn
	v.sees("0 credits")
	v.await("location.pathname === '/'")

	// What a wallet has made for this browser is good for nothing once it is signed out.
	key := v.key()
	v.open("/settings")
	v.pressAtRest("Sign out") // so nothing that the page asks for can meet the end of its key
	v.sees("With a key")
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); ; <-ticker.C {
		response := w.send(t, key, `{ me { user { name } } }`, nil)
		response.Body.Close()
		if response.StatusCode == http.StatusUnauthorized {
			v.await("window.unanswered === 0") // so that it has been told of a refusal, if there was one
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the key is good for %s after signing out", response.Status)
		}
	}
}

func privacy(t *testing.T, w *world) {
	v := w.visitor(t)
	v.signIn("discreet")
	v.clickAt("field('My invoices')")
	v.fill("Days until invoices", "30")
	v.press("Save")
	v.sees("Saved.")
	v.open("/settings")
	v.await("field('My invoices')?.checked && field('Days until invoices')?.value === '30'")
	v.fill("Days until invoices", "")
	v.press("Save")
	v.sees("Saved.")
	v.open("/settings")
	v.await("field('My invoices')?.checked && field('Days until invoices')?.value === ''")
}

func anonymousPost(t *testing.T, w *world) {
	v, other := w.visitor(t), w.visitor(t)
	other.open("/new")
	v.open("/")
	v.press("Write a post")
	v.sees("Price now: 10 sats") // anonymous posts cost ten times as much
	v.fill("Title", "Written by nobody")
	v.fill("Text", "Paid by **somebody**: https://example.org/ <img src=x>")
	v.press("Post")
	bolt11 := v.invoice()
	v.sees("Expires in")
	w.pay(t, bolt11)
	v.await("!qr()")
	v.await("state() === 'PAID'")
	v.press("Done")
	v.await("heading('Written by nobody')")
	v.await("document.querySelector('.text strong').textContent === 'somebody'")
	v.await("document.querySelector('.text a').rel === 'nofollow ugc noopener'")
	v.sees("<img src=x>")
	other.sees("Written by nobody") // live
}

func optimisticZap(t *testing.T, w *world) {
	item := w.give(t, w.signUp(t, "writer"), `createPost(title: "To be zapped", paymentMethod: OPTIMISTIC)`)
	payer, other := w.visitor(t), w.visitor(t)
	other.open("/items/" + item)
	other.await("heading('To be zapped')")
	payer.signIn("zapper")
	payer.open("/items/" + item)
	payer.press("Zap 10 sats")
	bolt11 := payer.invoice()
	payer.await("state() === 'PENDING'")
	payer.press("Close")
	payer.await("zapped(" + item + ", 'pending') === '+10'")
	payer.sees("Zap of 10 sats is not paid yet")

	// The other window looks again all the while; when it has shown something newer, what is pending would have come with it.
	w.give(t, "", `createComment(parent: "`+item+`", body: "Written meanwhile")`)
	other.sees("Written meanwhile")
	other.await("!zapped(" + item + ", 'pending') && zapped(" + item + ", 'total') === '0'")

	w.pay(t, bolt11)
	payer.await("!zapped(" + item + ", 'pending') && zapped(" + item + ", 'total') === '10'")
	other.await("zapped(" + item + ", 'total') === '10'") // live
}

func sharedZaps(t *testing.T, w *world) {
	var partner struct {
		Me struct{ User struct{ ID string } }
	}
	w.ask(t, w.signUp(t, "partner"), `{ me { user { id } } }`, &partner)
	item := w.give(t, w.signUp(t, "generous"), `createPost(title: "Written by two", forwards: [{user: "`+partner.Me.User.ID+`", pct: 30}], paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.open("/items/" + item)
	v.sees("Of what its author gets for a zap, 30% goes to partner.")
}

func failedAndRetried(t *testing.T, w *world) {
	item := w.give(t, w.signUp(t, "patient"), `createPost(title: "To be paid at last", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.signIn("hesitant")
	v.open("/items/" + item)
	v.press("Zap 10 sats")
	v.invoice()
	v.press("Cancel this payment")
	v.await("state() === 'FAILED'")
	v.sees("Not paid and not done.")
	v.press("Close")
	v.await("!document.querySelector('dialog[open]')")

	v.open("/notifications")
	v.sees("Not paid: Zap")
	v.press("Try again")
	bolt11 := v.invoice()
	w.pay(t, bolt11)
	v.await("state() === 'PAID'")
	v.press("Done")
	v.open("/items/" + item)
	v.await("zapped(" + item + ", 'total') === '10'")
}

// dearer tries a post again that others have made dearer meanwhile: whoever pays is told the price first, also where it would be paid at once.
func dearer(t *testing.T, w *world) {
	v := w.visitor(t)
	v.signIn("often")
	v.open("/post")
	v.sees("Price now: 1 sat")
	v.fill("Title", "To be tried again")
	v.press("Post")
	v.invoice()
	v.press("Cancel this payment")
	v.await("state() === 'FAILED'")
	key := v.key()
	w.give(t, key, `createPost(title: "Written meanwhile", paymentMethod: OPTIMISTIC)`)
	v.press("Try again")
	v.sees("The price is now 10 sats, more than you agreed to.")
	v.await("state() === 'FAILED'")
	v.press("Try again for 10 sats")
	w.pay(t, v.invoice())
	v.await("state() === 'PAID'")
}

func zapToWallet(t *testing.T, w *world) {
	receiver, payer := w.visitor(t), w.visitor(t)
	receiver.signIn("receiver")
	receiver.open("/wallet/receiving")
	receiver.fill("name@example.org", w.stack.Network.LightningAddress())
	receiver.press("Test and save")
	receiver.sees("Saved: it gave an invoice.")
	receiver.open("/post")
	receiver.fill("Title", "From somebody with a wallet")
	receiver.press("Post")
	receiver.press("Pay with the demo wallet")
	receiver.await("state() === 'PAID'")
	receiver.press("Done")
	item := receiver.item()

	payer.signIn("direct")
	payer.open("/items/" + item)
	payer.press("Zap 10 sats")
	w.pay(t, payer.invoice())
	payer.await("!qr()")
	payer.await("state() === 'PAID'")

	receiver.open("/wallet")
	receiver.sees("to your own wallet")
}

// busyAtNext has the service tell of no other action than the first that the page asks for, until the test sets
// window.idle.
const busyAtNext = `{
	const busy = [{ message: 'Busy.', extensions: { code: 'TRY_AGAIN' } }]
	let first
	const refused = ({ query, variables }) =>
		/paidAction(Updated)?\(/.test(query) && variables.id !== (first ??= variables.id) && !window.idle && (window.refused = true)
	const ask = window.fetch
	window.fetch = async (to, what) =>
		what?.body && refused(JSON.parse(what.body)) ? new Response(JSON.stringify({ errors: busy })) : ask(to, what)
	window.WebSocket = class extends WebSocket {
		send(message) {
			const { id, type, payload } = JSON.parse(message)
			if (type !== 'subscribe' || !refused(payload)) return super.send(message)
			setTimeout(() => this.onmessage({ data: JSON.stringify({ id, type: 'error', payload: busy }) }))
		}
	}
}`

// nextAttempt has the receiver's wallet refuse a zap: the service begins the next attempt by itself, and nobody asks the
// page for it. The service cannot tell of it at first, and its payer closes the dialog meanwhile: it waits for them as
// soon as the page knows of it.
func nextAttempt(t *testing.T, w *world) {
	refusing := w.signUp(t, "refusing")
	w.ask(t, refusing, `mutation { walletSave(settings: { lightningAddress: "`+w.stack.Network.LightningAddress()+`" }) { id } }`, &struct{}{})
	item := w.give(t, refusing, `createPost(title: "Refused at first", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.inject(busyAtNext)
	v.signIn("undaunted")
	v.open("/items/" + item)
	v.press("Zap 10 sats")
	first := v.invoice()
	w.payRefused(t, v.key(), first)
	v.await("window.refused && state() === 'RETRYING' && !document.querySelector('dialog [role=alert]')")
	v.press("Close")
	v.await("!document.querySelector('dialog[open]')")
	v.await("(window.idle = true)")
	v.press("Pay 10 sats")
	second := v.invoice()
	if second == first {
		t.Error("the invoice that was refused is shown again")
	}
	w.pay(t, second)
	v.await("state() === 'PAID'")
}

// amountPerTap chooses to zap much with one tap, and signs out, in another window too: whoever comes next zaps the usual
// amount. How much it is stands at the button.
func amountPerTap(t *testing.T, w *world) {
	item := w.give(t, w.signUp(t, "tapped"), `createPost(title: "To be tapped", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.signIn("bighearted")
	v.fill("Sats per tap", "5000")
	v.open("/items/" + item)
	v.await("zapped(" + item + ", 'tap') === 'Zap 5,000'")
	other := v.window()
	other.open("/settings")
	other.press("Sign out")
	v.await("zapped(" + item + ", 'tap') === 'Zap 10'")
	other.fill("Name", "frugal")
	other.press("Sign up")
	other.sees("You are frugal")
	other.await("field('Sats per tap').value === '10'")
	other.open("/items/" + item)
	other.await("zapped(" + item + ", 'tap') === 'Zap 10'")
	other.press("Zap 10 sats")
	other.sees("until you pay 10 sats.")
}

// payRefused pays an invoice of the key's owner, and the receiver's wallet refuses the payment.
func (w *world) payRefused(t *testing.T, key, bolt11 string) {
	t.Helper()
	var begun struct {
		PaidActions struct {
			Nodes []struct {
				Invoice struct{ Bolt11, PaymentHash string }
			}
		}
	}
	w.ask(t, key, `{ paidActions { nodes { invoice { bolt11 paymentHash } } } }`, &begun)
	for _, a := range begun.PaidActions.Nodes {
		if a.Invoice.Bolt11 != bolt11 {
			continue
		}
		// The receiver's own invoice has the same hash.
		if err := w.stack.Network.Node(devnet.Receiver).Cancel(t.Context(), a.Invoice.PaymentHash); err != nil {
			t.Fatal(err)
		}
	}
	if payment, err := w.stack.Network.Node(devnet.Payer).Pay(t.Context(), bolt11); err != nil || payment.Settled {
		t.Fatalf("what the receiver refuses: %+v, %v", payment, err)
	}
}

// heldAddress is the receiver's lightning address by way of a server that keeps everybody waiting while held is locked.
func (w *world) heldAddress(t *testing.T) (address string, held *sync.RWMutex) {
	t.Helper()
	name, host, _ := strings.Cut(w.stack.Network.LightningAddress(), "@")
	held = new(sync.RWMutex)
	way := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host})
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		held.RLock()
		defer held.RUnlock()
		way.ServeHTTP(answer, r)
	}))
	t.Cleanup(server.Close)
	return name + "@" + strings.TrimPrefix(server.URL, "http://"), held
}

// leftAtFailed leaves a zap whose receiver could not be paid, by closing its dialog and by leaving the page, before the
// service has begun the next attempt: the receiver's second wallet takes its time. It waits for its payer all the same.
func leftAtFailed(t *testing.T, w *world) {
	for i, leave := range []func(*visitor){
		func(v *visitor) { v.press("Close") },
		func(v *visitor) { v.open("/territories") },
	} {
		refusing := w.signUp(t, fmt.Sprint("refusing", i))
		second, held := w.heldAddress(t)
		for _, address := range []string{w.stack.Network.LightningAddress(), second} {
			w.ask(t, refusing, `mutation { walletSave(settings: { lightningAddress: "`+address+`" }) { id } }`, &struct{}{})
		}
		item := w.give(t, refusing, `createPost(title: "Refused, and paid later", paymentMethod: OPTIMISTIC)`)
		v := w.visitor(t)
		v.signIn(fmt.Sprint("leaving_early", i))
		v.open("/items/" + item)
		v.press("Zap 10 sats")
		first := v.invoice()
		held.Lock()
		release := sync.OnceFunc(held.Unlock)
		defer release() // also where the test fails: its server waits for its answers
		w.payRefused(t, v.key(), first)
		v.await("state() === 'FAILED'")
		v.sees("The next attempt may follow by itself.")
		leave(v)
		v.await("!document.querySelector('dialog[open]')")
		v.sees("is under way.")
		release()
		v.press("Pay 10 sats")
		second = v.invoice()
		if second == first {
			t.Error("the invoice that was refused is shown again")
		}
		w.pay(t, second)
		v.await("state() === 'PAID'")
	}
}

// paidUnasked closes the dialog of a zap, and buys credits. Its receiver could not be paid, so the credits pay for the next
// attempt: whoever pays is told.
func paidUnasked(t *testing.T, w *world) {
	refusing := w.signUp(t, "refusing_twice")
	w.ask(t, refusing, `mutation { walletSave(settings: { lightningAddress: "`+w.stack.Network.LightningAddress()+`" }) { id } }`, &struct{}{})
	item := w.give(t, refusing, `createPost(title: "Refused, and paid from credits", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.signIn("provident")
	v.open("/items/" + item)
	v.press("Zap 10 sats")
	first := v.invoice()
	v.press("Close")
	v.sees("Zap of 10 sats is not paid yet.")
	w.give(t, v.key(), `buyCredits(credits: 50)`)
	w.payRefused(t, v.key(), first)
	v.sees("Zap of 10 sats: paid from your credits.")
	v.await("!document.querySelector('aside.waiting')")
}

func credits(t *testing.T, w *world) {
	item := w.give(t, w.signUp(t, "popular"), `createPost(title: "Zapped from credits", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.signIn("rich")
	v.open("/wallet")
	v.press("Buy credits")
	v.fill("Credits", "500")
	v.sees("Price: 500 sats")
	v.press("Buy")
	v.press("Pay with the demo wallet")
	v.await("state() === 'PAID'")
	v.press("Done")
	v.sees("500 credits")
	v.open("/items/" + item)
	v.press("Zap 10 sats")
	v.sees("Zap of 10 sats: paid from your credits.")
	v.await("!document.querySelector('dialog[open]') && zapped(" + item + ", 'total') === '10'")
	v.sees("490 credits")
	v.await("!says('Zap of 10 sats: paid from your credits.')") // and what is the same again is told again
	v.press("Zap 10 sats")
	v.sees("Zap of 10 sats: paid from your credits.")
	v.sees("480 credits")
}

// sentToWithdraw keeps what the page sends to have something withdrawn.
const sentToWithdraw = `{
	const ask = window.fetch
	window.fetch = (to, what) => {
		if (String(what?.body).includes('withdraw(')) window.sent = JSON.parse(what.body).variables
		return ask(to, what)
	}
}`

func withdrawal(t *testing.T, w *world) {
	v := w.visitor(t)
	v.inject(sentToWithdraw)
	v.signIn("saver")
	w.receive(t, "saver")
	bolt11, err := w.stack.Network.Node("receiver").Invoice(t.Context(), 21_000, "withdrawn")
	if err != nil {
		t.Fatal(err)
	}
	v.open("/wallet/withdraw")
	v.await("Number.parseFloat([...document.querySelectorAll('.balances dd')][2]?.textContent) > 50")
	v.fill("Invoice, lightning address or LNURL", bolt11)
	v.sees("The invoice asks for 21 sats.")
	v.press("Withdraw")
	v.await("state() === 'PAID'")
	v.await("window.sent.maxCostSats === 31") // with the most that routing may cost
	v.press("Done")
	v.open("/wallet")
	v.sees("Withdrawal paid")
	v.await(`[...document.querySelectorAll('.history details')].some((d) => /Routing cost [\d.]+ sats?\. .*[0-9a-f]{64}$/.test(d.textContent))`)
}

// amountToWithdraw enters all that can be paid: an invoice says how much it asks for, and whoever pays anything else is asked.
func amountToWithdraw(t *testing.T, w *world) {
	v := w.visitor(t)
	v.signIn("careful")
	v.open("/wallet/withdraw")
	for _, c := range []struct{ to, asks string }{
		{"lnbc2500u1pvjluez", "250,000 sats"},
		{"lightning:LNBCRT20M1PVJLUEZ", "2,000,000 sats"},
		{"lntbs1m1pvjluez", "100,000 sats"},
		{"lnsb10n1pvjluez", "1 sat"},
		{"lntb15p1pvjluez", "0.002 sats"},
		{"lnbc21pvjluez", "200,000,000 sats"},
	} {
		v.fill("Invoice, lightning address or LNURL", c.to)
		v.sees("The invoice asks for " + c.asks + ".")
		v.await("!field('Sats')")
	}
	for _, to := range []string{"name@example.org", "lnurl1dp68gurn8ghj7", "lightning:LNURL1DP68GURN8GHJ7", "lnurlp://example.org/pay", "https://example.org/pay"} {
		v.fill("Invoice, lightning address or LNURL", to)
		v.await("field('Sats') && !says('The invoice asks for')")
	}
	v.fill("Invoice, lightning address or LNURL", "lnbc1pvjluez") // the node refuses one without an amount
	v.await("!field('Sats') && !says('The invoice asks for')")
}
