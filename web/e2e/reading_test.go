package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
)

// slowItems has the service take longer to tell of an item than the page takes to look again (lookEvery in item.tsx).
// most is how many questions were under way at once.
const slowItems = `{
	const ask = window.fetch
	let asking = 0
	window.most = 0
	window.fetch = async (to, what) => {
		if (!String(what?.body).includes('item(id')) return ask(to, what)
		window.most = Math.max(window.most, ++asking)
		const answer = await ask(to, what)
		await new Promise((go) => setTimeout(go, 5000))
		asking--
		return answer
	}
}`

// slowService waits for an item on a slow line: it is shown once it has come, and asked for once at a time.
func slowService(t *testing.T, w *world) {
	item := w.give(t, w.signUp(t, "faraway"), `createPost(title: "Worth waiting for", paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	v.inject(slowItems)
	v.open("/items/" + item)
	v.await("heading('Worth waiting for')")
	if most := string(v.await("window.most")); most != "1" {
		t.Errorf("it was asked for %s times at once", most)
	}
}

// shortLists has the pages of a list hold one post each, and keeps what is said of them.
const shortLists = `{
	const ask = window.fetch
	window.said = ''
	window.fetch = async (to, how) => {
		if (!how?.body?.includes('items(sort')) return ask(to, how)
		const said = await (await ask(to, { ...how, body: how.body.replace('after: $after)', 'after: $after, first: 1)') })).text()
		window.said += said
		return new Response(said)
	}
}`

// longList reads a list of several pages. What is written meanwhile is seen, and hides nothing between the pages that are
// open. The texts of the posts are not asked for: nobody sees them there.
func longList(t *testing.T, w *world) {
	author := w.signUp(t, "prolific")
	w.give(t, author, `territoryCreate(name: "shelf", description: "One after another.", baseCostSats: 1, replyCostSats: 1, billing: MONTHLY)`)
	write := func(title string) {
		t.Helper()
		w.give(t, author, `createPost(title: "`+title+`", body: "Not for lists", territory: "shelf", paymentMethod: OPTIMISTIC)`)
	}
	write("First")
	write("Second")
	write("Third")
	v := w.visitor(t)
	v.inject(shortLists)
	shown := func(titles ...string) {
		t.Helper()
		raw, err := json.Marshal(titles)
		if err != nil {
			t.Fatal(err)
		}
		v.await("JSON.stringify([...document.querySelectorAll('.items h3')].map((e) => e.textContent)) === " + quoted(string(raw)))
	}
	v.open("/t/shelf/new")
	shown("Third")
	v.press("More")
	shown("Third", "Second")
	write("Fourth")
	shown("Fourth", "Third")
	v.press("More")
	shown("Fourth", "Third", "Second")
	v.press("More")
	shown("Fourth", "Third", "Second", "First")
	v.await("!button('More') && window.said.includes('Fourth') && !window.said.includes('Not for lists')")
}

// turnedRound has people end what they write with a character that writes from right to left what follows it: what
// stands beside it, such as the host that a link leads to, still reads from left to right.
func turnedRound(t *testing.T, w *world) {
	key := w.signUp(t, "trickster")
	link := w.give(t, key, `createLink(title: "Read this\u202e", url: "https://moc.lapyap.example.com/", paymentMethod: OPTIMISTIC)`)
	poll := w.give(t, key, `createPoll(title: "Is it so?", options: ["Yes\u202e", "No"], paymentMethod: OPTIMISTIC)`)
	v := w.visitor(t)
	forwards := func(text string) {
		t.Helper()
		var at [2]float64
		raw := v.await(`(() => {
			const text = ` + text + `
			const left = (i) => { const r = document.createRange(); r.setStart(text, i); r.setEnd(text, i + 1); return r.getBoundingClientRect().left }
			return text && [left(0), left(text.data.trimEnd().length - 1)]
		})()`)
		if err := json.Unmarshal(raw, &at); err != nil || at[0] >= at[1] {
			t.Errorf("%s begins at %v and ends at %v: %v", text, at[0], at[1], err)
		}
	}
	v.signIn("attentive")
	v.open("/u/trickster")
	forwards(fmt.Sprintf("document.querySelector('#item-%s small a')?.firstChild", link))
	v.open("/items/" + poll)
	forwards("document.querySelector('.poll .muted')?.firstChild")
	v.press("Vote")
	v.invoice()
	v.press("Close")
	forwards("document.querySelector('aside.waiting')?.querySelector('bdi').nextSibling")
}
