package webhook

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// testType is the type of a message that reports nothing.
const testType = "webhook.test"

// receivedType is the type of a message to somebody whom an action has paid; the action itself is reported to its
// payer. internal/db has the same word.
const receivedType = "payment.received"

// Events are all types of messages: one for each state in the machine, for withdrawals and for everything else, and one
// for what was received.
var Events = events()

func events() []string {
	all := []string{receivedType}
	for _, step := range paidaction.Machine {
		all = append(all, typeOf(step.Flow, step.To))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// typeOf must agree with webhook_type in the database.
func typeOf(flow paidaction.Flow, to paidaction.State) string {
	prefix := "action."
	if flow == paidaction.FlowOutgoing {
		prefix = "payout."
	}
	return prefix + strings.ToLower(string(to))
}

// body is what is sent. It depends on the step alone, so that every attempt sends the same.
type body struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // of the step
	Data      data      `json:"data"`
}

// data says what happened to an action. It holds no invoice and no preimage, and tells neither what was written nor who
// was paid.
type data struct {
	ID            string   `json:"id,omitempty"`
	Kind          string   `json:"kind,omitempty"`
	State         string   `json:"state,omitempty"`
	PreviousState string   `json:"previousState,omitempty"`
	PaymentMethod string   `json:"paymentMethod,omitempty"`
	CostMsat      string   `json:"costMsat,omitempty"`
	Attempt       int      `json:"attempt,omitempty"`
	GenesisID     string   `json:"genesisId,omitempty"`
	Failure       *failure `json:"failure,omitempty"`
	PayerID       string   `json:"payerId,omitempty"` // only for the operator

	// Only for what was received.
	ReceivedMsat string `json:"receivedMsat,omitempty"`
	ItemID       string `json:"itemId,omitempty"` // what was zapped
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// bodyOf returns the text of a message, to the operator or to a user.
func bodyOf(m db.MessageToDeliverRow, operator bool) ([]byte, error) {
	b := body{Type: m.Type, Timestamp: m.CreatedAt.UTC()}
	switch {
	case m.Type == receivedType: // the action is another's: who paid it, how and for how much is not told
		b.Data = data{ID: strconv.FormatInt(*m.ActionID, 10), Kind: *m.Kind, ReceivedMsat: strconv.FormatInt(m.ReceivedMsat, 10)}
		if m.ItemID != 0 {
			b.Data.ItemID = strconv.FormatInt(m.ItemID, 10)
		}
	case m.ActionID != nil:
		id := strconv.FormatInt(*m.ActionID, 10)
		b.Data = data{ID: id, GenesisID: id, Kind: *m.Kind, State: *m.ToState, PaymentMethod: string(*m.Method),
			CostMsat: strconv.FormatInt(*m.CostMsat, 10), Attempt: int(*m.Attempt)}
		if m.FromState != nil {
			b.Data.PreviousState = *m.FromState
		}
		if m.GenesisID != nil {
			b.Data.GenesisID = strconv.FormatInt(*m.GenesisID, 10)
		}
		if *m.ToState == string(paidaction.Failed) && m.FailureCode != nil {
			b.Data.Failure = &failure{Code: *m.FailureCode}
			if m.FailureMessage != nil {
				b.Data.Failure.Message = *m.FailureMessage
			}
		}
		if operator && m.PayerID != nil {
			b.Data.PayerID = strconv.FormatInt(*m.PayerID, 10)
		}
	}
	return json.Marshal(b)
}
