package e2e

import "testing"

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
