package graph_test

import "testing"

const priceQuery = `query ($parent: ID, $territory: String, $boost: Sats) { itemPriceMsat(parent: $parent, territory: $territory, boost: $boost) }`

// The price told beforehand is the one that is then charged: higher for the anonymous, for those who have just written,
// and with a boost. Asking costs nothing and changes nothing.
func TestThePriceIsToldBeforehand(t *testing.T) {
	t.Parallel()
	a := serve(t)
	alice := a.Person("alice", 0, 0)
	price := func(as person, v vars) string {
		t.Helper()
		return a.Want(as, priceQuery, v).text("itemPriceMsat")
	}
	asked := func(as person) string {
		t.Helper()
		return a.Want(as, `mutation ($title: String!) { createPost(title: $title) { costMsat } }`, vars{"title": "Priced for " + as.Key}).text("createPost", "costMsat")
	}
	for _, as := range []person{nobody, alice} {
		told := price(as, nil)
		if again := price(as, nil); again != told {
			t.Errorf("told %s, then %s", told, again)
		}
		if cost := asked(as); cost != told {
			t.Errorf("told %s, asked for %s", told, cost)
		}
	}
	if first, second := price(nobody, nil), price(alice, nil); first != "10000" || second != "10000" {
		t.Errorf("nobody is told %s, want 10000; alice, who has just written, %s, want 10000", first, second)
	}
	if boosted := price(alice, vars{"boost": 7}); boosted != "17000" {
		t.Errorf("with a boost: %s", boosted)
	}
	for _, refused := range []struct {
		ask  vars
		code string
	}{
		{vars{"territory": "nowhere"}, "NOT_FOUND"},
		{vars{"territory": "a\x00b"}, "NOT_FOUND"},
		{vars{"parent": "1000000"}, "NOT_FOUND"},
		{vars{"parent": "1", "boost": 1}, "INVALID_INPUT"},
		{vars{"boost": -100}, "INVALID_AMOUNT"},
	} {
		if got := a.Do(alice, priceQuery, refused.ask).code(); got != refused.code {
			t.Errorf("%v: %s, want %s", refused.ask, got, refused.code)
		}
	}
}
