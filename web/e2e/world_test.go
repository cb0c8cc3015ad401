// Package e2e has the tests of the client: a real browser, the real service, a real Lightning network.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/a-seed-a7aed72f/holdfast/internal/aptget"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/chromium"
	"github.com/a-seed-a7aed72f/holdfast/internal/demo"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// world is a running stack and a browser.
type world struct {
	stack   *stack.Stack
	browser context.Context
}

// programs is a directory with the service as it is now, btcd and lnd.
func programs(t *testing.T) string {
	t.Helper()
	bin, err := devnet.Programs(t.Context(), os.Stderr, "../../cmd/holdfast")
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

func start(t *testing.T) *world {
	t.Helper()
	scratch, err := child.NewScratch("holdfast-e2e-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scratch.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := pgserver.EnsureInstalled(t.Context(), os.Stderr); err != nil {
		t.Fatal(err)
	}
	running, err := stack.Start(t.Context(), stack.Options{Dir: filepath.Join(scratch.Dir, "data"), Bin: programs(t), Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Stop)
	return &world{running, browser(t, filepath.Join(scratch.Dir, "chromium"))}
}

// browser starts Chromium, which asks for nothing by itself.
func browser(t *testing.T, profile string) context.Context {
	t.Helper()
	if err := aptget.Ensure(t.Context(), os.Stderr, chromium.Program); err != nil {
		t.Fatal(err)
	}
	path, err := chromium.Program.Path()
	if err != nil {
		t.Fatal(err)
	}
	allocator, end := chromedp.NewExecAllocator(t.Context(), chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.NoSandbox,
		chromedp.Flag("headless", "new"), chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		// Several windows are looked at at once.
		chromedp.Flag("disable-backgrounding-occluded-windows", true), chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-background-timer-throttling", true))
	ctx, closed := chromedp.NewContext(allocator, chromedp.WithErrorf(t.Logf))
	t.Cleanup(func() {
		closed()
		end()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return ctx
}

// pay pays an invoice from a node of the network, and fails the test if that fails.
func (w *world) pay(t *testing.T, bolt11 string) {
	t.Helper()
	payment, err := w.stack.Network.Node(devnet.Payer).Pay(t.Context(), bolt11)
	if err != nil || !payment.Settled {
		t.Fatalf("the payer's node: %+v, %v", payment, err)
	}
}

// signUp makes somebody without a browser.
func (w *world) signUp(t *testing.T, name string) (key string) {
	t.Helper()
	key, err := demo.SignUp(t.Context(), w.stack.URL(), name)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// ask asks the API beside any browser.
func (w *world) ask(t *testing.T, key, query string, into any) {
	t.Helper()
	response := w.send(t, key, query, nil)
	defer response.Body.Close()
	var answer struct {
		Data   json.RawMessage
		Errors []struct{ Message string }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Errors) > 0 {
		t.Fatalf("%s: %v, %v", query, answer.Errors, err)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		t.Fatal(err)
	}
}

func (w *world) send(t *testing.T, key, query string, header http.Header) *http.Response {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.stack.URL()+"/graphql", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// receive has somebody be sent 100 sats, which they can withdraw.
func (w *world) receive(t *testing.T, name string) {
	t.Helper()
	var user struct{ User struct{ ID string } }
	w.ask(t, "", `{ user(name: "`+name+`") { id } }`, &user)
	w.give(t, "", `receive(user: "`+user.User.ID+`", msat: "100000")`)
}

// awaits returns once an action has ended, and fails the test if it has not ended so.
func (w *world) awaits(t *testing.T, key, mine, state string) {
	t.Helper()
	changes := w.send(t, key, "subscription { paidActionUpdated"+mine+" { state } }", http.Header{"Accept": {"text/event-stream"}})
	defer changes.Body.Close()
	seen, err := io.ReadAll(changes.Body) // it ends with the action
	if err != nil || !bytes.Contains(seen, []byte(`"`+state+`"`)) {
		t.Fatalf("%s: %s, %v", mine, seen, err)
	}
}

// give asks for something that the payer's node pays, and returns once it counts: with the item, if one was made.
func (w *world) give(t *testing.T, key, mutation string) (item string) {
	t.Helper()
	var asked struct {
		Action struct {
			ID, Secret string
			Invoice    struct{ Bolt11 string }
		}
	}
	w.ask(t, key, "mutation { action: "+mutation+" { id secret invoice { bolt11 } } }", &asked)
	w.pay(t, asked.Action.Invoice.Bolt11)
	mine := fmt.Sprintf("(id: %q, secret: %q)", asked.Action.ID, asked.Action.Secret)
	w.awaits(t, key, mine, "PAID")
	var ended struct {
		Action struct {
			Result struct{ Item struct{ ID string } }
		}
	}
	w.ask(t, key, "{ action: paidAction"+mine+" { ... on ItemCreateAction { result { item { id } } } } }", &ended)
	return ended.Action.Result.Item.ID
}
