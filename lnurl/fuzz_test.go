package lnurl

import (
	"net/url"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Whatever a wallet asks for, we read from it something that the action takes, or refuse.
func FuzzReadOrder(f *testing.F) {
	for _, query := range []string{"amount=1000", "amount=1000&comment=hi&payerdata=%7B%22name%22%3A%22x%22%7D", "amount=-1", "amount=1&amount=2", "comment=%ff", "amount=1000&payerdata=null"} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		const most = 1_000_000
		o, err := readOrder(query, most)
		if err != nil {
			if _, refused := paidaction.AsRefusal(err); !refused {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if o.amount < leastSendable || o.amount > most || o.amount%1000 != 0 || o.comment != query.Get("comment") || o.payerData != query.Get("payerdata") {
			t.Errorf("%q was read as %+v", text, o)
		}
		err = community.Receive{}.Check(community.ReceiveArgs{User: 1, Msat: int64(o.amount), Comment: o.comment, Sender: o.sender})
		if _, refused := paidaction.AsRefusal(err); err != nil && !refused {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func FuzzReadPayerData(f *testing.F) {
	for _, text := range []string{`{"name":"x","identifier":"a@b.example","email":""}`, `{"pubkey":"02"}`, `{"name":null}`, `{"name":"x","name":"y"}`, `{"Name":"x"}`, `[]`, `{}`, "{\"name\":\"\xff\"}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sender, err := readPayerData(text)
		if _, refused := paidaction.AsRefusal(err); err != nil && (!refused || sender != nil) {
			t.Errorf("%q: %+v, %v", text, sender, err)
		}
		if sender != nil && *sender == (community.Sender{}) {
			t.Errorf("%q says nothing, and was read as somebody", text)
		}
	})
}

// Each payment has exactly one verify URL.
func FuzzReadVerify(f *testing.F) {
	h := paidaction.Hash{1, 2, 3}
	f.Add(h.String(), "00112233445566778899aabbccddeeff")
	f.Add(h.String()+"00", "00")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, hash, proof string) {
		h, p, ok := readVerify(hash, proof)
		if ok && (h.String() != hash || len(p) != 16 || len(proof) != 32) {
			t.Errorf("%q and %q were read as %s and %x", hash, proof, h, p)
		}
	})
}
