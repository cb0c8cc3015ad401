package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// post makes an anonymous post and pays for it, as a client and its wallet do. It sends header along.
func post(s *server, node *lndtest.Server, header http.Header) (action int64) {
	s.t.Helper()
	body := s.graphql(header, `mutation { createPost(title: "Hello") { id invoice { bolt11 } } }`, nil)
	var answer struct {
		Data struct {
			CreatePost struct {
				ID      string
				Invoice struct{ Bolt11 string }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Data.CreatePost.Invoice.Bolt11 == "" {
		s.t.Fatalf("%v: %s", err, body)
	}
	if err := node.Node.PayBolt11(answer.Data.CreatePost.Invoice.Bolt11, simnode.Payment{}); err != nil {
		s.t.Fatal(err)
	}
	id, err := strconv.ParseInt(answer.Data.CreatePost.ID, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// A payment can be followed through the log by its number alone: the request, the steps, the jobs, and each call to the
// node.
func TestTheLogTellsOneActionThroughout(t *testing.T) {
	t.Parallel()
	node, setting := newNode(t)
	s := serve(t, settings(pgtest.New(t), setting, "HOLDFAST_LOG_LEVEL=debug"))
	s.awaitReady(http.StatusOK)
	id := post(s, node, http.Header{})

	type line struct {
		Msg, Call, Job, From, To, Kind string
		Action                         *int64
	}
	invoices := []string{"AddHoldInvoice", "LookupInvoice", "SettleInvoice"} // calls that are about one action
	want := []string{"an action was asked for ITEM_CREATE", "the node was asked AddHoldInvoice", "the node was asked SettleInvoice", "a job is done advance",
		"an action moved HELD", "an action moved PAID", "a job is done after_paid"}
	var missing []string
	s.await("the whole payment in the log", func() bool {
		var told []string
		for text := range strings.Lines(s.said()) {
			var l line
			if json.Unmarshal([]byte(text), &l) != nil {
				continue
			}
			if l.Action != nil && *l.Action == id {
				told = append(told, l.Msg+" "+l.Kind+l.Call+l.Job+l.To)
			}
			if slices.Contains(invoices, l.Call) && l.Action == nil || strings.Count(text, `"action":`) > 1 {
				t.Errorf("it names no action, or more than one: %s", text)
			}
		}
		missing = slices.DeleteFunc(slices.Clone(want), func(w string) bool { return slices.Contains(told, w) })
		return len(missing) == 0
	})
	if t.Failed() {
		t.Log("missing:", missing)
	}
}

func TestLinesNameTheirActionOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := newLogger(&config.Config{LogFormat: "json"}, &out)
	log.InfoContext(context.Background(), "none")
	about := paidaction.About(t.Context(), 7)
	log.InfoContext(about, "its own")
	log.With("part", "x").InfoContext(about, "with more")
	log.InfoContext(about, "another's", "action", 8)
	var got []string
	for text := range strings.Lines(out.String()) {
		_, after, _ := strings.Cut(text, `"msg":`)
		got = append(got, strings.TrimSpace(after))
	}
	want := []string{`"none"}`, `"its own","action":7}`, `"with more","part":"x","action":7}`, `"another's","action":8}`}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
