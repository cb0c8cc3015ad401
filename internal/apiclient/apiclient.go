// Package apiclient asks a running service, for the programs that run and try one from outside: the stack, the demo,
// chaos and the benchmarks.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Refusal is an answer that says no, and why.
type Refusal struct {
	Code    paidaction.Code
	Message string
}

func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Message }

// Answer is what the service answers to an operation.
type Answer struct {
	Data   map[string]json.RawMessage
	Errors []struct {
		Message    string
		Extensions struct{ Code paidaction.Code }
	}
}

// Field reads the one field that was asked for, or returns the *Refusal.
func (a Answer) Field(into any) error {
	if len(a.Errors) > 0 {
		return &Refusal{a.Errors[0].Extensions.Code, a.Errors[0].Message}
	}
	for _, field := range a.Data {
		return json.Unmarshal(field, into)
	}
	return errors.New("the service answers nothing")
}

// Ask runs an operation of one field with a key, or anonymously if that is empty, and reads the field. It got an answer
// if the error is nil or a *Refusal; with any other error it got none.
func Ask(ctx context.Context, through *http.Client, url, key string, into any, query string, variables map[string]any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/graphql", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := through.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	text, err := io.ReadAll(response.Body) // to the end, or the connection is not kept
	if err != nil {
		return fmt.Errorf("%s breaks off: %w", url, err)
	}
	var answer Answer
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s answers %s: %w: %.300s", url, response.Status, err, text)
	}
	return answer.Field(into)
}

// Reach asks for one of the service's pages, such as /readyz, and returns nil if it is there.
func Reach(ctx context.Context, through *http.Client, page string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	response, err := through.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", page, response.Status)
	}
	return nil
}
