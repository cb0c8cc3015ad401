package graph

import (
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
