package bench

import (
	"context"
	"net/http"

	"github.com/a-seed-a7aed72f/holdfast/internal/apiclient"
)

// api asks a service over GraphQL, on connections that are kept alive.
type api struct {
	url  string
	http *http.Client
}

// newAPI is for this many clients at once.
func newAPI(address string, clients int) api {
	return api{"http://" + address, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
}

func (a api) close() { a.http.CloseIdleConnections() }

// do runs an operation of one field with a user's key, and reads the field.
func (a api) do(ctx context.Context, key, query string, variables map[string]any, into any) error {
	return apiclient.Ask(ctx, a.http, a.url, key, into, query, variables)
}
