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
	callback *url.URL
	comment  int // characters at most (LUD-12)
}

// ReadPay reads the answer to the first request.
func ReadPay(body []byte) (*Pay, error) {
	var answer struct {
		Status         string      `json:"status"`
		Tag            string      `json:"tag"`
		Callback       string      `json:"callback"`
		MinSendable    json.Number `json:"minSendable"`
		MaxSendable    json.Number `json:"maxSendable"`
		CommentAllowed json.Number `json:"commentAllowed"`
		Metadata       string      `json:"metadata"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil, ErrMalformed
	}
	if answer.Status == "ERROR" {
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
		p.comment = int(min(n, 1000))
	}
	return p, nil
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
	query := p.callback.Query()
	query.Set("amount", strconv.FormatInt(msat, 10))
	if comment = cut(comment, p.comment); comment != "" {
		query.Set("comment", comment)
	}
	u := *p.callback
	u.RawQuery = query.Encode()
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

// ReadInvoice reads the answer to the second request: a bolt11.
func ReadInvoice(body []byte) (string, error) {
	var answer struct {
		Status string `json:"status"`
		PR     string `json:"pr"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return "", ErrMalformed
	}
	if answer.Status == "ERROR" {
		return "", ErrDeclined
	}
	if answer.PR == "" {
		return "", ErrMalformed
	}
	return answer.PR, nil
}
