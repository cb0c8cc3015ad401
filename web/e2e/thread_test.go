package e2e

import "testing"

// shortPages has the pages of a thread hold one comment each.
const shortPages = `{
	const ask = window.fetch
	window.fetch = (to, how) => ask(to, how?.body ? { ...how, body: how.body.replace('thread(', 'thread(limit: 1, ').replace('thread {', 'thread(limit: 1) {') } : how)
}`

// longThread reads a thread of several pages. What a page begins with may answer what the page before has, and what is written meanwhile is
// seen on whichever page it comes.
func longThread(t *testing.T, w *world) {
	post := w.give(t, w.signUp(t, "talkative"), `createPost(title: "Much was said", paymentMethod: OPTIMISTIC)`)
	answer := func(by, to, body string) (id string) {
		t.Helper()
		return w.give(t, w.signUp(t, by), `createComment(parent: "`+to+`", body: "`+body+`", paymentMethod: OPTIMISTIC)`)
	}
	first := answer("prompt", post, "The first word")
	below := answer("responsive", first, "An answer to it")
	answer("late", post, "The last word")

	v := w.visitor(t)
	v.inject(shortPages)
	v.open("/items/" + post)
	v.sees("The first word")
	v.await("!says('An answer to it')")
	v.press("More comments")
	v.await("document.querySelector('#item-" + first + " #item-" + below + "')")
	v.await("!says('The last word')")
	v.press("More comments")
	v.sees("The last word")
	v.await("!button('More comments')")
	answer("slow", below, "Said meanwhile") // the pages that are open have room for three
	v.press("More comments")
	v.await("document.querySelector('#item-" + below + " li')?.innerText.includes('Said meanwhile') && says('The first word') && says('The last word')")
}
