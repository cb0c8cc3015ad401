package lnurl

import (
	"encoding/json"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// order is what a wallet asks an invoice for.
type order struct {
	amount    paidaction.Msat
	comment   string
	sender    *community.Sender // nil: the payer gives no data about themselves
	payerData string            // the JSON that sender was read from, unchanged: the invoice carries its hash
}

// maxPayerData is in bytes.
const maxPayerData = 2048

// readOrder reads the query of a callback. Each parameter may be given once, so that the wallet and we cannot mean
// different values.
func readOrder(query url.Values, most paidaction.Msat) (o order, err error) {
	for _, name := range []string{"amount", "comment", "payerdata"} {
		if len(query[name]) > 1 {
			return order{}, paidaction.Errorf(paidaction.CodeInvalidInput, "The request has the %s more than once.", name)
		}
	}
	amount, err := strconv.ParseUint(query.Get("amount"), 10, 63)
	if err != nil {
		return order{}, paidaction.Errorf(paidaction.CodeInvalidAmount, "Give the amount in millisatoshis, as a whole number.")
	}
	o.amount = paidaction.Msat(amount)
	switch {
	case o.amount < leastSendable || o.amount > most:
		return order{}, paidaction.Errorf(paidaction.CodeInvalidAmount, "Send from %d to %d millisatoshis.", leastSendable, most)
	case o.amount%1000 != 0:
		return order{}, paidaction.Errorf(paidaction.CodeInvalidAmount, "Send whole sats: a multiple of 1000 millisatoshis.")
	}
	o.comment = query.Get("comment")
	if !utf8.ValidString(o.comment) { // stored as JSON, it would become another text
		return order{}, paidaction.Errorf(paidaction.CodeInvalidInput, "The comment is not valid text.")
	}
	if utf8.RuneCountInString(o.comment) > community.MaxReceiveComment {
		return order{}, paidaction.Errorf(paidaction.CodeInvalidInput, "A comment can have at most %d characters.", community.MaxReceiveComment)
	}
	o.payerData = query.Get("payerdata")
	if o.sender, err = readPayerData(o.payerData); err != nil {
		return order{}, err
	}
	return o, nil
}

// readPayerData reads what payers say about themselves (LUD-18). It refuses fields that were not offered: the receiver
// would take them for verified.
func readPayerData(text string) (*community.Sender, error) {
	if text == "" {
		return nil, nil
	}
	unreadable := paidaction.Errorf(paidaction.CodeInvalidInput, "The payer data cannot be read: send a JSON object whose values are strings.")
	if len(text) > maxPayerData || !utf8.ValidString(text) {
		return nil, unreadable
	}
	var said map[string]string
	if json.Unmarshal([]byte(text), &said) != nil || said == nil {
		return nil, unreadable
	}
	sender := &community.Sender{}
	for name, value := range said {
		switch name {
		case "name":
			sender.Name = value
		case "identifier":
			sender.Identifier = value
		case "email":
			sender.Email = value
		default:
			return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "Payer data can only have name, identifier and email.")
		}
	}
	if *sender == (community.Sender{}) {
		return nil, nil
	}
	return sender, nil
}
