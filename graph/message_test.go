package graph

import (
	"slices"
	"strings"
	"testing"
)

// Of a large message gqlgen gets only what it uses, to the digit: it keeps all that it gets while a subscription lasts.
func TestOfAMessageOnlyWhatIsUsedIsKept(t *testing.T) {
	t.Parallel()
	c := &checkedConn{numbers: map[string]string{}, ids: map[string]string{}}
	c.begun.Store(true)
	const used = `{"query":"subscription","operationName":"S","variables":{"id":9007199254740993}}`
	spaces := strings.Repeat(" ", mostFollowing)
	m := envelope{ID: "followed", Type: "subscribe", Payload: []byte(strings.Replace(used, `"query"`, spaces+`"unknown":"x","extensions":{"x":1},"query"`, 1))}
	if broken := c.check(&m); broken != nil || string(m.Payload) != used {
		t.Errorf("%d bytes, %v: %s", len(m.Payload), broken, m.Payload[:min(len(m.Payload), 200)])
	}
}

// heard is a connection that notes what is said on it.
type heard struct {
	boundedConn
	said []string
}

func (h *heard) WriteJSON(v any) error {
	h.said = append(h.said, v.(*envelope).Type)
	return nil
}

func (h *heard) WriteClose(int, string) error {
	h.said = append(h.said, "close")
	return nil
}

// gqlgen writes the close in a goroutine of its own, and calls what is under way complete meanwhile: whichever comes
// first, the client hears of the close alone.
func TestNothingIsSaidOnceAConnectionIsBeingClosed(t *testing.T) {
	t.Parallel()
	said := &heard{}
	c := &checkedConn{boundedConn: said, numbers: map[string]string{}, ids: map[string]string{}}
	c.begun.Store(true)
	ends, followed := c.begin("ends by itself"), c.begin("followed")
	_ = c.WriteJSON(&envelope{ID: ends, Type: "complete"})
	_ = c.WriteClose(closeBadRequest, "INVALID_INPUT")
	_ = c.WriteJSON(&envelope{ID: followed, Type: "complete"})
	if !slices.Equal(said.said, []string{"complete", "close"}) {
		t.Errorf("the client hears %q", said.said)
	}
}
