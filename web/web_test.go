package web_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"rsc.io/qr"

	"github.com/a-seed-a7aed72f/holdfast/web"
)

func get(t *testing.T, h http.Handler, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var asset = regexp.MustCompile(`/assets/[\w.-]+`)

// What a first visit loads is small, comes from this server alone, and is cached for ever under names of its own.
func TestTheFirstLoadIsSmall(t *testing.T) {
	t.Parallel()
	h := web.NewHandler(nil, false)
	page := get(t, h, "/", "Accept-Encoding", "gzip, br")
	policy := page.Header.Get("Content-Security-Policy")
	for _, must := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "base-uri 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, must) {
			t.Errorf("the policy is %q, without %s", policy, must)
		}
	}
	if page.Header.Get("Cache-Control") != "no-cache" || page.Header.Get("X-Content-Type-Options") != "nosniff" || page.Header.Get("Referrer-Policy") != "no-referrer" ||
		page.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("headers of the page: %v", page.Header)
	}
	total := page.ContentLength
	unpacked, err := gzip.NewReader(page.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	assets := asset.FindAllString(string(text), -1)
	if len(assets) != 3 {
		t.Fatalf("the page names %v", assets)
	}
	for _, path := range assets {
		packed, plain := get(t, h, path, "Accept-Encoding", "gzip"), get(t, h, path)
		total += packed.ContentLength
		if c := packed.Header.Get("Cache-Control"); packed.StatusCode != http.StatusOK || !strings.Contains(c, "immutable") || packed.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %d, %v", path, packed.StatusCode, packed.Header)
		}
		if packed.Header.Get("Vary") != "Accept-Encoding" || plain.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: a cache between would give it packed to those who unpack nothing: %v", path, plain.Header)
		}
		if plain.Header.Get("Content-Encoding") != "" || plain.ContentLength < packed.ContentLength && !strings.HasSuffix(path, ".svg") {
			t.Errorf("%s for those who unpack nothing: %v", path, plain.Header)
		}
	}
	t.Logf("%d bytes", total)
	if total > 100_000 {
		t.Errorf("a first visit loads %d bytes", total)
	}
	if outside := regexp.MustCompile(`(src|href)="?(https?:)?//`).FindString(string(text)); outside != "" {
		t.Errorf("the page asks elsewhere: %s", outside)
	}
}

// While processes are replaced one after the other, the page of one may ask another for its files, which have other
// names there.
func TestAPageOfAnotherVersionHasItsFiles(t *testing.T) {
	t.Parallel()
	h := web.NewHandler(nil, false)
	for _, path := range asset.FindAllString(body(t, get(t, h, "/")), -1) {
		other := regexp.MustCompile(`-[0-9a-f]{12}\.`).ReplaceAllString(path, "-0123456789ab.")
		if other == path {
			t.Fatalf("%s has no hash", path)
		}
		here, there := get(t, h, path), get(t, h, other)
		if there.StatusCode != http.StatusOK || there.Header.Get("Content-Type") != here.Header.Get("Content-Type") || body(t, there) != body(t, here) {
			t.Errorf("%s: %d, %v", other, there.StatusCode, there.Header)
		}
		if c := there.Header.Get("Cache-Control"); c != "no-store" {
			t.Errorf("%s is kept under the name of another one: %q", other, c)
		}
	}
	for _, path := range []string{"/assets/", "/assets/app.txt", "/assets/other-0123456789ab.js"} {
		if r := get(t, h, path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}

// Every address that the client can show can also be opened directly, and no other can.
func TestPagesAreThoseOfTheClient(t *testing.T) {
	t.Parallel()
	h := web.NewHandler(nil, false)
	for path, want := range map[string]int{
		"/": 200, "/new": 200, "/top": 200, "/t/bitcoin": 200, "/t/bitcoin/top": 200, "/territories": 200, "/items/7": 200, "/u/alice": 200, "/post": 200,
		"/notifications": 200, "/wallet": 200, "/wallet/credits": 200, "/wallet/withdraw": 200, "/wallet/receiving": 200, "/settings": 200,
		"/nothing": 404, "/assets/app.js": 404,
	} {
		if r := get(t, h, path); r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
	source, err := os.ReadFile("src/app.tsx")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`case '(\w+)':`).FindAllStringSubmatch(string(source), -1) {
		one, two := get(t, h, "/"+found[1]), get(t, h, "/"+found[1]+"/x")
		if one.StatusCode != http.StatusOK && two.StatusCode != http.StatusOK {
			t.Errorf("the client has a page /%s, which cannot be opened", found[1])
		}
	}
}

// A code has, module for module, what the library made of the text.
func TestCodesSayWhatTheyShould(t *testing.T) {
	t.Parallel()
	h := web.NewHandler(nil, false)
	text := "LNBC100N1" + strings.Repeat("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 12)
	r := get(t, h, "/qr?text="+text)
	drawn := body(t, r)
	if kept := r.Header.Get("Cache-Control"); r.Header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(kept, "immutable") || !strings.Contains(kept, "private") {
		t.Errorf("%v", r.Header)
	}
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		t.Fatal(err)
	}
	black := map[[2]int]bool{}
	for _, run := range regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-\d+z`).FindAllString(drawn, -1) {
		var x, y, width int
		if _, err := fmt.Sscanf(run, "M%d %dh%d", &x, &y, &width); err != nil {
			t.Fatal(err)
		}
		for i := range width {
			black[[2]int{x + i - 4, y - 4}] = true
		}
	}
	for y := -4; y < code.Size+4; y++ {
		for x := -4; x < code.Size+4; x++ {
			if code.Black(x, y) != black[[2]int{x, y}] {
				t.Fatalf("module %d, %d is drawn black: %t", x, y, black[[2]int{x, y}])
			}
		}
	}
	for _, query := range []string{"", "?text=", "?text=" + strings.Repeat("x", 1501)} {
		if r := get(t, h, "/qr"+query); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%.20s: %d", query, r.StatusCode)
		}
	}
}

// The demo wallet is there only if it is configured, and no page of another site can make it pay.
func TestDemoWallet(t *testing.T) {
	t.Parallel()
	paid := make(chan string, 1)
	wallet := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		paid <- string(asked)
	}))
	defer wallet.Close()
	at, err := url.Parse(wallet.URL)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(h http.Handler, contentType string) int {
		r := httptest.NewRequest(http.MethodPost, "/demo-wallet", strings.NewReader(`{"bolt11":"lnbc1"}`))
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	with, without := web.NewHandler(at, true), web.NewHandler(nil, false)
	if strings.Contains(body(t, get(t, without, "/")), "demo-wallet") || !strings.Contains(body(t, get(t, with, "/")), "demo-wallet") {
		t.Error("the page says the wrong thing of the demo wallet")
	}
	if strings.Contains(body(t, get(t, without, "/")), "wallet-sign-in") || !strings.Contains(body(t, get(t, with, "/")), "wallet-sign-in") {
		t.Error("the page says the wrong thing of signing in by a wallet")
	}
	if got := ask(without, "application/json"); got != http.StatusMethodNotAllowed {
		t.Errorf("without a demo wallet: %d", got)
	}
	if got := ask(with, "text/plain"); got != http.StatusUnsupportedMediaType {
		t.Errorf("as a form of another site sends it: %d", got)
	}
	if got := ask(with, "application/json"); got != http.StatusOK {
		t.Fatalf("%d", got)
	}
	if got := <-paid; got != `{"bolt11":"lnbc1"}` {
		t.Errorf("the wallet was asked %s", got)
	}
}

// After an error that may have come although the request was carried out, the page asks again under the same key: it
// must know all of these codes.
func TestThePageAsksAgainWhereSomethingMayHaveBeenBegun(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	marked := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|.*\\*\\*it may have been").FindAllStringSubmatch(read("../docs/api.md"), -1)
	list := regexp.MustCompile(`(?s)get unclear\(\) \{(.*?)\}`).FindString(read("src/api.ts"))
	if len(marked) < 4 || list == "" {
		t.Fatalf("%d codes, and the list %q", len(marked), list)
	}
	for _, code := range marked {
		if !strings.Contains(list, "'"+code[1]+"'") {
			t.Errorf("the page takes %s for a sign that nothing was begun", code[1])
		}
	}
}
