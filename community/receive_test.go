package community_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A comment may have more bytes than a bolt11 has room for. Its beginning is shown, and the payment is made; the whole of it is kept.
func TestTheLongestCommentCanBePaid(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	receiver := w.User("receiver", 0, 0)
	for _, m := range []paidaction.Method{paidaction.Pessimistic, paidaction.P2P} {
		if m == paidaction.P2P {
			w.Wallets.Add(receiver)
		}
		for _, letter := range []string{"a", "語", "🍜"} {
			comment := strings.Repeat(letter, community.MaxReceiveComment)
			pa := w.Pay(0, community.KindReceive, community.ReceiveArgs{User: receiver, Msat: 100 * sat, Comment: comment}, m)
			shown, err := w.Node.DecodeInvoice(w.Ctx, pa.Invoice.Bolt11)
			if err != nil || !strings.HasPrefix(comment, shown.Description) || !utf8.ValidString(shown.Description) ||
				len(shown.Description) < min(len(comment), paidaction.MaxMemo-3) {
				t.Errorf("%s, %d times %s: %+v, %v", m, community.MaxReceiveComment, letter, shown, err)
			}
			if n := w.Count(`SELECT count(*) FROM paid_action WHERE id = $1 AND args->>'comment' = $2`, pa.ID, comment); n != 1 {
				t.Errorf("%s: the comment is not kept", m)
			}
		}
	}
}

// Whoever is paid by somebody else is told; they know of what they have sent to themselves.
func TestNobodyIsToldOfTheirOwnPayment(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	receiver := w.User("receiver", 0, 0)
	for payer, want := range map[int64]int64{0: 1, w.User("other", 0, 0): 1, receiver: 0} {
		pa := w.Pay(payer, community.KindReceive, community.ReceiveArgs{User: receiver, Msat: 100 * sat}, paidaction.Pessimistic)
		payInvoice(w, pa)
		w.Drain()
		w.WantState(pa.ID, paidaction.Paid)
		if n := w.Count(`SELECT count(*) FROM notification WHERE user_id = $1 AND action_id = $2`, receiver, pa.ID); n != want {
			t.Errorf("the receiver is told %d times of what user %d has paid, want %d", n, payer, want)
		}
	}
}
