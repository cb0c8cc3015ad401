package lnurl

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"unicode/utf8"
)

// What a server can answer that is no invoice.
var (
	// ErrDeclined: the server says that it will not. Its reason is dropped: it may quote what it was sent.
	ErrDeclined = errors.New("lnurl: the server declines")
	// ErrMalformed: an answer that LUD-06 does not know.
	ErrMalformed = errors.New("lnurl: the answer cannot be read")
)

// Pay is what a server says of paying to it (LUD-06): which amounts in msat, and where to ask for an invoice.
type Pay struct {
	Min, Max int64
	Comment  int // characters at most (LUD-12)
	callback *url.URL
}

// ReadPay reads the answer to the first request. A server that must know who pays is not paid (LUD-18): nothing of that
// is sent from here.
func ReadPay(body []byte) (*Pay, error) {
	var answer struct {
		Status         string          `json:"status"`
		Tag            string          `json:"tag"`
		Callback       string          `json:"callback"`
		MinSendable    json.Number     `json:"minSendable"`
		MaxSendable    json.Number     `json:"maxSendable"`
		CommentAllowed json.Number     `json:"commentAllowed"`
		Metadata       string          `json:"metadata"`
		PayerData      json.RawMessage `json:"payerData"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil, ErrMalformed
	}
	if answer.Status == "ERROR" || mustKnow(answer.PayerData) {
		return nil, ErrDeclined
	}
	callback, err := url.Parse(answer.Callback)
	if err != nil || answer.Tag != "payRequest" || callback.Hostname() == "" || !describes(answer.Metadata) {
		return nil, ErrMalformed
	}
	p := &Pay{callback: callback}
	if p.Min, err = answer.MinSendable.Int64(); err != nil || p.Min < 1 {
		return nil, ErrMalformed
	}
	if p.Max, err = answer.MaxSendable.Int64(); err != nil || p.Max < p.Min {
		return nil, ErrMalformed
	}
	if n, err := answer.CommentAllowed.Int64(); err == nil && n > 0 {
		p.Comment = int(min(n, 1000))
	}
	return p, nil
}

// mustKnow says whether a server takes nothing from whom it does not know.
func mustKnow(payerData json.RawMessage) bool {
	var fields map[string]struct {
		Mandatory bool `json:"mandatory"`
	}
	_ = json.Unmarshal(payerData, &fields) // what is no such list demands nothing
	for _, field := range fields {
		if field.Mandatory {
			return true
		}
	}
	return false
}

// describes says whether the metadata are a list of pairs with a text among them.
func describes(metadata string) bool {
	var entries [][]any
	if json.Unmarshal([]byte(metadata), &entries) != nil {
		return false
	}
	for _, e := range entries {
		if len(e) > 1 && e[0] == "text/plain" {
			return true
		}
	}
	return false
}

// Callback is where to ask for an invoice over so many msat. A comment is cut to what the server takes.
func (p *Pay) Callback(msat int64, comment string) string {
	u := *p.callback
	ours := url.Values{"amount": {strconv.FormatInt(msat, 10)}}
	if comment = cut(comment, p.Comment); comment != "" {
		ours.Set("comment", comment)
	}
	// It is appended to what is there, which may be signed as it stands, or be no list of pairs (LUD-06).
	for name := range ours {
		if there := u.Query(); there.Has(name) {
			there.Del(name)
			u.RawQuery = there.Encode()
		}
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += ours.Encode()
	return u.String()
}

// cut is the first characters of a text.
func cut(text string, characters int) string {
	at := 0
	for ; characters > 0 && at < len(text); characters-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return text[:at]
}

// Invoice is what a server answers to the second request.
type Invoice struct {
	Bolt11 string
	// Action is the kind of what the payer gets with the payment (LUD-09), as the server calls it; "" for nothing.
	Action string
}

// ActionMessage is the kind of a text that anybody may read before they pay (LUD-09).
const ActionMessage = "message"

// ReadInvoice reads the answer to the second request.
func ReadInvoice(body []byte) (Invoice, error) {
	var answer struct {
		Status string          `json:"status"`
		PR     string          `json:"pr"`
		Action json.RawMessage `json:"successAction"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return Invoice{}, ErrMalformed
	}
	if answer.Status == "ERROR" {
		return Invoice{}, ErrDeclined
	}
	if answer.PR == "" {
		return Invoice{}, ErrMalformed
	}
	got := Invoice{Bolt11: answer.PR}
	if len(answer.Action) > 0 && string(answer.Action) != "null" {
		var action struct {
			Tag string `json:"tag"`
		}
		if json.Unmarshal(answer.Action, &action) != nil || action.Tag == "" {
			action.Tag = "unknown"
		}
		got.Action = action.Tag
	}
	return got, nil
}
