package e2e

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/chromedp/cdproto/network"
)

// operatorsPages are held to what all pages promise. River's among them is River's own work: it has to show jobs, to keep to our origin,
// and to have nothing to complain of under our policy.
func operatorsPages(t *testing.T, w *world) {
	w.give(t, "", `createPost(title: "What the operator sees")`)
	v := w.visitor(t)
	signed := "Basic " + base64.StdEncoding.EncodeToString([]byte("operator:"+w.stack.OperatorKey()))
	command(v, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": signed}})
	v.open("/operator/")
	v.sees("database: ready")
	v.sees("All credits are backed.")
	look(v, "operator")
	v.open("/operator/actions")
	v.sees("ITEM_CREATE")
	look(v, "operator-actions")
	var action string
	if err := json.Unmarshal(v.await("document.querySelector('tbody a').getAttribute('href')"), &action); err != nil {
		t.Fatal(err)
	}
	v.open(action)
	v.await("heading('History')")
	look(v, "operator-action")
	v.open("/operator/jobs/jobs?state=completed")
	v.sees("advance")
	shoot(v, "operator-jobs")
}
