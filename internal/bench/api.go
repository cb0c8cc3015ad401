package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// api asks a service over GraphQL, on connections that are kept alive.
type api struct {
	url  string
	http *http.Client
}

// newAPI is for this many clients at once.
func newAPI(address string, clients int) api {
	return api{"http://" + address + "/graphql", &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
}

func (a api) close() { a.http.CloseIdleConnections() }

// do runs an operation of one field with a user's key, and reads the field. Anything but an answer is an error.
func (a api) do(ctx context.Context, key, query string, variables map[string]any, into any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+key)
	answer, err := a.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body) // read to the end, or the connection is not kept
	if err != nil {
		return err
	}
	var read struct {
		Data   map[string]json.RawMessage
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(text, &read); err != nil || answer.StatusCode != http.StatusOK || len(read.Errors) > 0 {
		return fmt.Errorf("the service answers %s: %.300s", answer.Status, text)
	}
	for _, field := range read.Data {
		return json.Unmarshal(field, into)
	}
	return errors.New("the service answers nothing")
}
