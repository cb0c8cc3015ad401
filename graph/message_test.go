package graph

import (
	"strings"
	"testing"
)

// Of a large message gqlgen gets only what it uses, to the digit: it keeps all that it gets while a subscription lasts.
func TestOfAMessageOnlyWhatIsUsedIsKept(t *testing.T) {
	t.Parallel()
	c := &checkedConn{active: map[string]bool{}}
	c.begun.Store(true)
	const used = `{"id":"1","type":"subscribe","payload":{"query":"subscription","operationName":"S","variables":{"id":9007199254740993}}}`
	spaces := strings.Repeat(" ", mostFollowing)
	got, broken := c.check([]byte(strings.Replace(used, `"query"`, spaces+`"unknown":"x","extensions":{"x":1},"query"`, 1)))
	if broken != nil || string(got) != used {
		t.Errorf("%d bytes, %v: %s", len(got), broken, got[:min(len(got), 200)])
	}
}
