package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/apiclient"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// action is a paid action as the API shows it.
type action struct {
	ID        string
	Kind      string
	State     paidaction.State
	Method    paidaction.Method `json:"paymentMethod"`
	Cost      int64             `json:"costMsat,string"`
	Secret    string
	Successor string `json:"successorId"`
	Invoice   *struct {
		Bolt11 string
		Hash   string `json:"paymentHash"`
	}
	Failure *struct{ Code string }
}

// fields are the fields requested of every action.
const fields = ` { id kind state paymentMethod costMsat secret successorId invoice { bolt11 paymentHash } failure { code } }`

// unsettled are refusals after which an honest client repeats the request: nothing was done, or the outcome is unknown.
var unsettled = map[paidaction.Code]bool{
	paidaction.CodeTryAgain: true, paidaction.CodeUnknownOutcome: true, paidaction.CodeInternal: true,
	paidaction.CodeLightningUnavailable: true, "TIME_LIMIT_EXCEEDED": true,
}

// line is the way to the API: several processes, of which any may be down. It counts requests.
type line struct {
	http            *http.Client
	urls            []string
	asked, repeated atomic.Int64
}

// askTimeout is how long a client waits for an answer before it asks elsewhere.
const askTimeout = 15 * time.Second

func newLine(urls []string) *line { return &line{http: &http.Client{Timeout: askTimeout}, urls: urls} }

// person is one client of the API: signed in with a key, or anonymous without one.
type person struct {
	name string
	key  string
	id   string
	line *line
}

// do asks one process after the other until one has answered. So the request must be safe to repeat.
func (p *person) do(ctx context.Context, into any, query string, variables map[string]any) error {
	p.line.asked.Add(1)
	first := rand.IntN(len(p.line.urls))
	for try := 0; ; try++ {
		err := apiclient.Ask(ctx, p.line.http, p.line.urls[(first+try)%len(p.line.urls)], p.key, into, query, variables)
		refused := (*apiclient.Refusal)(nil)
		if err == nil || errors.As(err, &refused) && !unsettled[refused.Code] {
			return err
		}
		p.line.repeated.Add(1)
		if gone := wait(ctx, min(time.Duration(try+1)*50*time.Millisecond, time.Second)+rand.N(50*time.Millisecond)); gone != nil {
			return fmt.Errorf("%w (last answer: %w)", gone, err)
		}
	}
}

// look reads an action again.
func (p *person) look(ctx context.Context, id, secret string) (a action, err error) {
	err = p.do(ctx, &a, `query ($id: ID!, $secret: String) { paidAction(id: $id, secret: $secret)`+fields+` }`, own(id, secret))
	return a, err
}

// cancel cancels an action, and retry begins its next attempt. If somebody was faster, the answer is a refusal.
func (p *person) cancel(ctx context.Context, id, secret string) error {
	return p.do(ctx, &action{}, `mutation ($id: ID!, $secret: String) { cancelInvoice(id: $id, secret: $secret)`+fields+` }`, own(id, secret))
}

func (p *person) retry(ctx context.Context, id, secret string) (a action, err error) {
	err = p.do(ctx, &a, `mutation ($id: ID!, $secret: String) { retryPaidAction(id: $id, secret: $secret)`+fields+` }`, own(id, secret))
	return a, err
}

func own(id, secret string) map[string]any {
	variables := map[string]any{"id": id}
	if secret != "" {
		variables["secret"] = secret
	}
	return variables
}
