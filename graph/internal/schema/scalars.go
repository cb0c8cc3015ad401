// Package schema is what gqlgen makes of schema.graphql, and the few types on the wire that need code of their own.
package schema

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
)

func quoted(s string) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) { _, _ = io.WriteString(w, strconv.Quote(s)) })
}

// MarshalID writes an id: a string of digits.
func MarshalID(id int64) graphql.Marshaler { return quoted(strconv.FormatInt(id, 10)) }

// UnmarshalID reads an id. What cannot be one names nothing.
func UnmarshalID(v any) (int64, error) {
	text, isText := v.(string)
	if !isText {
		text = digits(v)
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, paidaction.Errorf(paidaction.CodeNotFound, "There is nothing with this id.")
	}
	return id, nil
}

// digits is a number as it was written in a query or its variables, or nothing.
func digits(v any) string {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case json.Number:
		return v.String()
	default:
		return ""
	}
}

// MarshalSats writes whole satoshi: a number.
func MarshalSats(sats int64) graphql.Marshaler { return graphql.MarshalInt64(sats) }

// UnmarshalSats reads whole satoshi. Whether the amount makes sense is for the action to say.
func UnmarshalSats(v any) (int64, error) {
	sats, err := strconv.ParseInt(digits(v), 10, 64)
	if err != nil {
		return 0, paidaction.Errorf(paidaction.CodeInvalidAmount, "An amount in sats is a whole number, written without quotes.")
	}
	return sats, nil
}

// MarshalMsat writes millisatoshi: a string of digits.
func MarshalMsat(m paidaction.Msat) graphql.Marshaler { return quoted(m.String()) }

// UnmarshalMsat reads what MarshalMsat wrote.
func UnmarshalMsat(v any) (paidaction.Msat, error) {
	text, _ := v.(string)
	return paidaction.ParseMsat(text)
}

// MarshalStoredMsat writes millisatoshi as the database has them.
func MarshalStoredMsat(m int64) graphql.Marshaler { return MarshalMsat(paidaction.Msat(m)) }

// UnmarshalStoredMsat reads what MarshalStoredMsat wrote.
func UnmarshalStoredMsat(v any) (int64, error) {
	m, err := UnmarshalMsat(v)
	return int64(m), err
}

// MarshalDate writes a day.
func MarshalDate(day time.Time) graphql.Marshaler { return quoted(day.Format(time.DateOnly)) }

// UnmarshalDate reads a day.
func UnmarshalDate(v any) (time.Time, error) {
	text, _ := v.(string)
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return day, paidaction.Errorf(paidaction.CodeInvalidInput, "Write a day like this: 2026-01-31.")
	}
	return day, nil
}

// MarshalTime writes a moment, in UTC whatever the zone of the machine is.
func MarshalTime(at time.Time) graphql.Marshaler { return quoted(at.UTC().Format(time.RFC3339Nano)) }

// UnmarshalTime reads a moment.
func UnmarshalTime(v any) (time.Time, error) {
	text, _ := v.(string)
	at, err := time.Parse(time.RFC3339, text)
	if year := at.UTC().Year(); err != nil || year < 0 || year > 9999 { // by its zone it can be in a year that RFC 3339 has no number for
		return at, paidaction.Errorf(paidaction.CodeInvalidInput, "Write a time like this: 2026-01-31T12:00:00Z.")
	}
	return at, nil
}

// MarshalActionState writes a state.
func MarshalActionState(s paidaction.State) graphql.Marshaler { return quoted(string(s)) }

// UnmarshalActionState reads a state.
func UnmarshalActionState(v any) (paidaction.State, error) {
	return oneOf(v, paidaction.States, "This is not a state of an action.")
}

// MarshalPaymentMethod writes a payment method.
func MarshalPaymentMethod(m paidaction.Method) graphql.Marshaler { return quoted(string(m)) }

// UnmarshalPaymentMethod reads a payment method.
func UnmarshalPaymentMethod(v any) (paidaction.Method, error) {
	return oneOf(v, paidaction.Methods, "This is not a way to pay.")
}

// MarshalWalletKind writes a kind of wallet.
func MarshalWalletKind(k wallet.Kind) graphql.Marshaler { return quoted(string(k)) }

// UnmarshalWalletKind reads a kind of wallet.
func UnmarshalWalletKind(v any) (wallet.Kind, error) {
	return oneOf(v, wallet.Kinds, "This is not a kind of wallet.")
}

func oneOf[T ~string](v any, all []T, otherwise string) (T, error) {
	text, _ := v.(string)
	if !slices.Contains(all, T(text)) {
		return "", paidaction.Errorf(paidaction.CodeInvalidInput, "%s", otherwise)
	}
	return T(text), nil
}

// Base is what every action has, whatever its type.
func (b *BasePaidAction) Base() *BasePaidAction { return b }
