package nostr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kinds of events (NIP-47).
const (
	kindInfo     = 13194
	kindRequest  = 23194
	kindResponse = 23195
)

// Socket is an open connection to a relay. Each message is one text.
type Socket interface {
	Read(ctx context.Context) ([]byte, error)
	Write(ctx context.Context, message []byte) error
}

// What a wallet or its relay can answer that is no result.
var (
	// ErrRefused: the relay does not pass the request on.
	ErrRefused = errors.New("nostr: the relay refuses the request")
	// ErrUnsupported: the wallet says itself that it does not know the method.
	ErrUnsupported = errors.New("nostr: the wallet does not know the method")
	// ErrMalformed: an answer that NIP-47 does not know.
	ErrMalformed = errors.New("nostr: the answer cannot be read")
)

// WalletError is a wallet's own refusal. Its code is one of NIP-47's or the wallet's; the text that comes with it is dropped.
type WalletError struct{ Code string }

func (e *WalletError) Error() string { return "nostr: the wallet answered " + e.Code }

// expiry is how long a request is good for: a wallet that comes back later must not act on it. It is longer than anybody
// waits for the answer, since the wallet's clock and its relay's may be ahead of ours.
const expiry = 5 * time.Minute

// Ask has the wallet do something and returns its result. It reads the socket until the answer comes or ctx ends; what others
// write over the relay is passed by.
func (c *Connection) Ask(ctx context.Context, socket Socket, method string, params any, now time.Time) (json.RawMessage, error) {
	encryption, err := c.encryption(ctx, socket, method)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"method": method, "params": params})
	if err != nil {
		return nil, err
	}
	content, err := encryption.Encrypt(string(text), c.secret, c.wallet)
	if err != nil {
		return nil, err
	}
	request := &Event{CreatedAt: now.Unix(), Kind: kindRequest, Content: content, Tags: [][]string{{"p", c.name},
		{"encryption", string(encryption)}, {"expiration", strconv.FormatInt(now.Add(expiry).Unix(), 10)}}}
	if err := request.Sign(c.secret); err != nil {
		return nil, err
	}
	// First the subscription: the answer is kept nowhere.
	filter := map[string]any{"kinds": []int{kindResponse}, "authors": []string{c.name}, "#e": []string{request.ID}}
	if err := send(ctx, socket, "REQ", subscription, filter); err != nil {
		return nil, err
	}
	if err := send(ctx, socket, "EVENT", request); err != nil {
		return nil, err
	}
	for {
		m, err := receive(ctx, socket)
		if err != nil {
			return nil, err
		}
		switch {
		case m.kind == "OK" && m.id == request.ID && !m.accepted, m.kind == "CLOSED" && m.id == subscription:
			return nil, ErrRefused
		case m.kind == "EVENT" && c.answers(m.event, request.ID):
			return c.result(m.event, method, encryption)
		}
	}
}

const (
	subscription     = "holdfast"
	infoSubscription = "holdfast-info"
)

// encryption is the best one that the wallet knows, as its info event says; one that says nothing knows NIP-04.
func (c *Connection) encryption(ctx context.Context, socket Socket, method string) (Encryption, error) {
	filter := map[string]any{"kinds": []int{kindInfo}, "authors": []string{c.name}, "limit": 1}
	if err := send(ctx, socket, "REQ", infoSubscription, filter); err != nil {
		return "", err
	}
	found := NIP04
	for {
		m, err := receive(ctx, socket)
		if err != nil {
			return "", err
		}
		switch {
		case m.kind == "CLOSED" && m.id == infoSubscription:
			return "", ErrRefused
		case m.kind == "EOSE" && m.id == infoSubscription:
			return found, send(ctx, socket, "CLOSE", infoSubscription)
		case m.kind == "EVENT" && m.event.Kind == kindInfo && m.event.PubKey == c.name && m.event.Verify():
			if known := strings.Fields(m.event.Content); len(known) > 0 && !slices.Contains(known, method) {
				return "", ErrUnsupported
			}
			if slices.Contains(strings.Fields(m.event.tag("encryption")), string(NIP44)) {
				found = NIP44
			}
		}
	}
}

// answers says whether an event is the wallet's answer to this request. A relay may send anything.
func (c *Connection) answers(e *Event, request string) bool {
	return e.Kind == kindResponse && e.PubKey == c.name && e.tagged("e", request) && e.Verify()
}

func (c *Connection) result(e *Event, method string, encryption Encryption) (json.RawMessage, error) {
	text, err := encryption.Decrypt(e.Content, c.secret, c.wallet)
	if err != nil {
		return nil, ErrMalformed
	}
	var response struct {
		Type   string          `json:"result_type"`
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &response); err != nil {
		return nil, ErrMalformed // the error of encoding/json quotes the text
	}
	if response.Error != nil {
		return nil, &WalletError{Code: response.Error.Code}
	}
	if response.Type != method || len(response.Result) == 0 {
		return nil, ErrMalformed
	}
	return response.Result, nil
}

func send(ctx context.Context, socket Socket, message ...any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("write a message for a relay: %w", err)
	}
	return socket.Write(ctx, text)
}

// message is one from a relay: EVENT (with the event), or OK, EOSE and CLOSED (with the
// id of what they speak of). Others do not concern us.
type message struct {
	kind     string
	id       string
	accepted bool
	event    *Event
}

// receive reads one message. What is no message is passed by.
func receive(ctx context.Context, socket Socket) (m message, err error) {
	text, err := socket.Read(ctx)
	if err != nil {
		return m, err
	}
	var parts []json.RawMessage
	if json.Unmarshal(text, &parts) != nil || len(parts) < 2 || json.Unmarshal(parts[0], &m.kind) != nil {
		return message{}, nil
	}
	if json.Unmarshal(parts[1], &m.id) != nil {
		return message{}, nil
	}
	switch {
	case m.kind == "EVENT" && len(parts) > 2:
		m.event = new(Event)
		if json.Unmarshal(parts[2], m.event) != nil {
			return message{}, nil
		}
	case m.kind == "EVENT":
		return message{}, nil
	case m.kind == "OK":
		m.accepted = len(parts) < 3 || string(parts[2]) == "true"
	}
	return m, nil
}
