package graph_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// The bytes with which files of each type begin.
const (
	png  = "\x89PNG\r\n\x1a\n"
	jpeg = "\xff\xd8\xff\xe0"
	gif  = "GIF89a"
	webp = "RIFF\x24\x00\x00\x00WEBPVP8 "
	mp4  = "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"
)

// file is an answer about a file.
type file struct {
	Status int
	Header http.Header
	Body   string
}

// patient sends a body only when it is asked for, if the request expects that.
var patient = &http.Transport{ExpectContinueTimeout: time.Hour, DisableKeepAlives: true}

// File sends a request for a file, or one that uploads a file.
func (a *api) File(method, path string, as person, body io.Reader, headers ...string) file {
	a.Helper()
	req, err := http.NewRequestWithContext(a.Ctx, method, a.URL+path, body)
	if err != nil {
		a.Fatal(err)
	}
	if as.Key != "" {
		req.Header.Set("Authorization", "Bearer "+as.Key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := patient.RoundTrip(req)
	if err != nil {
		a.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		a.Fatal(err)
	}
	return file{resp.StatusCode, resp.Header, string(raw)}
}

// sent is the answer to an upload.
type sent struct {
	ID, URL, ContentType string
	Bytes, FeeSats       int64
}

// Upload uploads a file that must be accepted.
func (a *api) Upload(as person, content string) sent {
	a.Helper()
	f := a.File(http.MethodPost, "/uploads", as, strings.NewReader(content), "Content-Type", "image/png")
	if f.Status != http.StatusCreated {
		a.Fatalf("%d %s", f.Status, f.Body)
	}
	var s sent
	a.decode(f.Body, &s)
	return s
}

// wantRefused fails the test unless a file was refused with this code, without showing the inside.
func (a *api) wantRefused(name string, f file, status int, code string) {
	a.Helper()
	var r answer
	a.decode(f.Body, &r)
	r.Raw = f.Body
	if f.Status != status || r.code() != code || f.Header.Get("Cache-Control") != "no-store" {
		a.Errorf("%s: %d %s, want %d %s", name, f.Status, f.Body, status, code)
		return
	}
	for _, inside := range []string{"SQLSTATE", "INSERT", "pgx", ".go:", "upload_"} {
		if strings.Contains(f.Body, inside) {
			a.Errorf("%s shows %q: %s", name, inside, f.Body)
		}
	}
}

func (a *api) decode(body string, into any) {
	a.Helper()
	if err := json.Unmarshal([]byte(body), into); err != nil {
		a.Fatalf("%.300s: %v", body, err)
	}
}

// Before a file is paid for, only its owner gets it; afterwards everybody does.
func TestFilesBeforeAndAfterPayment(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, other := a.Person("owner", 0, 0), a.Person("other", 0, 0)
	content := png + "a picture"
	u := a.Upload(owner, content)
	if u.Bytes != int64(len(content)) || u.ContentType != "image/png" || u.FeeSats != 0 || !strings.HasPrefix(u.URL, "/uploads/") {
		t.Errorf("%+v", u)
	}
	want := func(when string, as person, seen bool, cache string) {
		t.Helper()
		f := a.File(http.MethodGet, u.URL, as, nil)
		if !seen {
			a.wantRefused(when, f, http.StatusNotFound, "NOT_FOUND")
			return
		}
		if f.Status != http.StatusOK || f.Body != content || f.Header.Get("Cache-Control") != cache {
			t.Errorf("%s: %d %q, %s", when, f.Status, f.Body, f.Header.Get("Cache-Control"))
		}
		for name, value := range map[string]string{"Content-Type": "image/png", "X-Content-Type-Options": "nosniff",
			"Content-Security-Policy": "sandbox", "Content-Disposition": "inline"} {
			if got := f.Header.Get(name); got != value {
				t.Errorf("%s: %s: %s", when, name, got)
			}
		}
	}
	deleteItem := func(u sent) {
		t.Helper()
		if _, err := a.Pool.Exec(a.Ctx, `UPDATE item SET deleted_at = $1 WHERE id = (SELECT item_id FROM upload WHERE id = $2)`, a.Clock.Now(), number(t, u.ID)); err != nil {
			t.Fatal(err)
		}
	}
	const create = `mutation($u: [ID!]) { createPost(title: "with a picture", uploads: $u) { id state invoice { bolt11 } result { item { id uploads { id url contentType bytes } } } } }`
	want("unclaimed, its owner", owner, true, "no-store")
	want("unclaimed, another", other, false, "")
	want("unclaimed, nobody", nobody, false, "")
	r := a.Want(owner, create, vars{"u": []string{u.ID}})
	if got := fmt.Sprint(r.at("createPost", "result", "item", "uploads")); got != fmt.Sprint([]any{map[string]any{
		"id": u.ID, "url": u.URL, "contentType": "image/png", "bytes": float64(u.Bytes)}}) {
		t.Errorf("its owner sees %s", got)
	}
	want("pending, its owner", owner, true, "no-store")
	want("pending, another", other, false, "")
	want("pending, nobody", nobody, false, "")
	a.wantRefused("an unknown key", a.File(http.MethodGet, u.URL, person{Key: "hf_unknown"}, nil), http.StatusUnauthorized, "UNAUTHENTICATED")
	a.PayInvoice(r.text("createPost", "invoice", "bolt11"))
	a.Advance(number(t, r.text("createPost", "id")))
	for _, as := range []person{owner, other, nobody} {
		want("paid", as, true, "public, max-age=31536000, immutable")
	}
	const item = `query($id: ID!) { item(id: $id) { uploads { url } } }`
	if r := a.Want(nobody, item, vars{"id": r.text("createPost", "result", "item", "id")}); fmt.Sprint(r.at("item", "uploads")) != fmt.Sprintf("[map[url:%s]]", u.URL) {
		t.Errorf("everybody sees %s", r.Raw)
	}

	deleteItem(u)
	want("deleted, its owner", owner, true, "no-store")
	want("deleted, another", other, false, "")
	want("deleted, nobody", nobody, false, "")

	// For an anonymous file the URL is the proof.
	u = a.Upload(nobody, content)
	if u.FeeSats != 100 {
		t.Errorf("anonymous: %+v", u)
	}
	want("anonymous, unclaimed", nobody, true, "no-store")
	r = a.Want(nobody, create, vars{"u": []string{u.ID}})
	want("anonymous, pending", nobody, true, "no-store")
	a.PayInvoice(r.text("createPost", "invoice", "bolt11"))
	for range 2 { // held, then settled
		a.Advance(number(t, r.text("createPost", "id")))
	}
	want("anonymous, paid", other, true, "public, max-age=31536000, immutable")
	deleteItem(u)
	want("anonymous, deleted", nobody, false, "")
	want("anonymous, deleted, somebody", other, false, "")
}

// Parts of a file, and whether it has changed, can be asked for as for any other file.
func TestFilesComeInParts(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 0, 0)
	content := png + strings.Repeat("0123456789abcdef", 40_000) // many pieces
	u := a.Upload(owner, content)
	whole := a.File(http.MethodGet, u.URL, owner, nil)
	if whole.Status != http.StatusOK || whole.Body != content {
		t.Errorf("%d, %d of %d bytes", whole.Status, len(whole.Body), len(content))
	}
	for asked, want := range map[string]string{
		"bytes=0-7": content[:8], "bytes=8-": content[8:], "bytes=-5": content[len(content)-5:], "bytes=65530-65540": content[65530:65541],
	} {
		if f := a.File(http.MethodGet, u.URL, owner, nil, "Range", asked); f.Status != http.StatusPartialContent || f.Body != want {
			t.Errorf("%s: %d, %d bytes, want %d", asked, f.Status, len(f.Body), len(want))
		}
	}
	if f := a.File(http.MethodGet, u.URL, owner, nil, "Range", "bytes=0-1,500000-500001"); f.Status != http.StatusOK || f.Body != content {
		t.Errorf("several parts: %d, %d bytes; the whole is cheaper", f.Status, len(f.Body))
	}
	if f := a.File(http.MethodGet, u.URL, owner, nil, "Range", "bytes=99999999-"); f.Status != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("beyond the end: %d", f.Status)
	}
	if f := a.File(http.MethodHead, u.URL, owner, nil); f.Status != http.StatusOK || f.Body != "" || f.Header.Get("Content-Length") != fmt.Sprint(len(content)) {
		t.Errorf("HEAD: %d %v", f.Status, f.Header)
	}
	if f := a.File(http.MethodGet, u.URL, owner, nil, "If-None-Match", whole.Header.Get("ETag")); f.Status != http.StatusNotModified {
		t.Errorf("unchanged: %d", f.Status)
	}
	for _, path := range []string{"/uploads/x", "/uploads/%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00", "/uploads/" + strings.Repeat("a", 22)} {
		a.wantRefused(path, a.File(http.MethodGet, path, owner, nil), http.StatusNotFound, "NOT_FOUND")
	}
}

// Whoever asks for a file again and again and takes nothing has no more of it in memory than of other answers. Others get
// it, and so do they, once what they do not take is gone.
func TestFilesThatNobodyTakesAreBounded(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) {
		c.Limits.Unread = 256 << 10
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	u := a.Upload(nobody, png+strings.Repeat("x", 9_000_000)) // more than the kernel keeps
	get := func(from string) file { return a.File(http.MethodGet, u.URL, nobody, nil, "X-Forwarded-For", from) }
	var left []io.Closer
	for range 2 {
		req, err := http.NewRequestWithContext(a.Ctx, http.MethodGet, a.URL+u.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", "192.0.2.1")
		resp, err := narrow().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("refused with %d", resp.StatusCode)
		}
		left = append(left, resp.Body)
	}
	a.wantRefused("a third", get("192.0.2.1"), http.StatusTooManyRequests, "OPERATION_LIMIT_EXCEEDED")
	if f := get("192.0.2.2"); f.Status != http.StatusOK || int64(len(f.Body)) != u.Bytes {
		t.Errorf("another address: %d, %d bytes", f.Status, len(f.Body))
	}
	left[0].Close()
	a.until("room for one", func() bool { return get("192.0.2.1").Status == http.StatusOK })
}

// A file is sent for so long in all, however willing its reader is.
func TestFilesAreSentForSoLong(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Limits.Download = time.Nanosecond })
	u := a.Upload(nobody, png)
	req, err := http.NewRequestWithContext(a.Ctx, http.MethodGet, a.URL+u.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := patient.RoundTrip(req)
	if err != nil {
		return // not even its headers came
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%d bytes came after its time", len(body))
	}
}

// The bytes say what a file is; its name and its claimed type do not.
func TestTypesAreSniffed(t *testing.T) {
	t.Parallel()
	a := serve(t)
	p := a.Person("somebody", 0, 0)
	for content, want := range map[string]string{
		png: "image/png", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", mp4: "video/mp4", png + "<script>alert(1)</script>": "image/png",
	} {
		f := a.File(http.MethodPost, "/uploads", p, strings.NewReader(content), "Content-Type", "image/jpeg")
		var u sent
		a.decode(f.Body, &u)
		if f.Status != http.StatusCreated || u.ContentType != want || f.Header.Get("Location") != u.URL {
			t.Errorf("%q: %d %s, want %s", content, f.Status, f.Body, want)
		}
		if got := a.File(http.MethodGet, u.URL, p, nil).Header.Get("Content-Type"); got != want {
			t.Errorf("%q is served as %s", content, got)
		}
	}
	before := a.Count(`SELECT count(*) FROM upload_data`)
	for name, c := range map[string]struct{ declared, content string }{
		"html as png":           {"image/png", "<!DOCTYPE html><script>alert(1)</script>"},
		"html with a gif in it": {"image/gif", "<html>" + gif},
		"svg as png":            {"image/png", `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`},
		"svg":                   {"image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg"/>`},
		"xml as webp":           {"image/webp", `<?xml version="1.0"?><svg/>`},
		"script as jpeg":        {"image/jpeg", "alert(1)"},
		"pdf as png":            {"image/png", "%PDF-1.7"},
		"nothing":               {"image/png", ""},
		"an icon":               {"image/png", "\x00\x00\x01\x00"},
		// These are types that a page of another site can send without a preflight request.
		"a form":             {"application/x-www-form-urlencoded", png},
		"a form of files":    {"multipart/form-data; boundary=x", png},
		"plain text":         {"text/plain", png},
		"no type":            {"", png},
		"a type that is bad": {"image/", png},
	} {
		f := a.File(http.MethodPost, "/uploads", p, strings.NewReader(c.content), "Content-Type", c.declared)
		a.wantRefused(name, f, http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	}
	if now := a.Count(`SELECT count(*) FROM upload_data`); now != before {
		t.Errorf("%d files were stored that were refused", now-before)
	}
}

// unread fails the test if anything of a body is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, errors.New("no")
}

func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) {
		c.Prices = community.DefaultSettings()
		c.Prices.MaxUpload, c.Prices.MaxUnpaidUploads, c.Prices.MaxUnpaidUploadBytes = 100, 3, 150
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	p := a.Person("somebody", 100, 0)
	hundred := png + strings.Repeat("x", 92)
	post := func(as person, body io.Reader, headers ...string) file {
		return a.File(http.MethodPost, "/uploads", as, body, append(headers, "Content-Type", "image/png")...)
	}
	a.wantRefused("a byte too many", post(p, strings.NewReader(hundred+"x")), http.StatusRequestEntityTooLarge, "BODY_LIMIT_EXCEEDED")
	a.wantRefused("too many, and no length", post(p, io.MultiReader(strings.NewReader(hundred), strings.NewReader("x"))),
		http.StatusRequestEntityTooLarge, "BODY_LIMIT_EXCEEDED")

	// Its length is too much: refused before a byte of it is sent.
	req, err := http.NewRequestWithContext(a.Ctx, http.MethodPost, a.URL+"/uploads", unread{t})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 101
	req.Header.Set("Content-Type", "image/png")
	req.Header.Set("Expect", "100-continue")
	resp, err := patient.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("refused with %d", resp.StatusCode)
	}

	first := a.Upload(p, hundred)
	a.wantRefused("too many bytes unclaimed", post(p, strings.NewReader(hundred)), http.StatusTooManyRequests, "TOO_MANY_UPLOADS")
	a.Upload(p, png)
	a.Upload(p, png)
	a.wantRefused("too many files unclaimed", post(p, strings.NewReader(png)), http.StatusTooManyRequests, "TOO_MANY_UPLOADS")
	a.Want(p, `mutation($u: [ID!]) { createPost(title: "x", uploads: $u) { id } }`, vars{"u": []string{first.ID}})
	a.Upload(p, png)
	// The anonymous are limited by their address, and nobody by what others do.
	for _, from := range []string{"192.0.2.1", "192.0.2.2"} {
		if f := post(nobody, strings.NewReader(hundred), "X-Forwarded-For", from); f.Status != http.StatusCreated {
			t.Errorf("%s: %d %s", from, f.Status, f.Body)
		}
		a.wantRefused(from, post(nobody, strings.NewReader(hundred), "X-Forwarded-For", from), http.StatusTooManyRequests, "TOO_MANY_UPLOADS")
	}
}

// A file whose sender does not say how long it is, is not stored only to be refused: that takes room, too.
func TestRefusedFilesAreNotStored(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) {
		c.Prices = community.DefaultSettings()
		c.Prices.MaxUpload, c.Prices.MaxUnpaidUploadBytes = 100_000, 100_000
	})
	p := a.Person("somebody", 0, 0)
	a.Upload(p, png)
	size := func() int64 { return a.Count(`SELECT pg_total_relation_size('upload_data')`) }
	before := size()
	big := png + strings.Repeat("x", 99_992)
	f := a.File(http.MethodPost, "/uploads", p, io.MultiReader(strings.NewReader(big)), "Content-Type", "image/png")
	a.wantRefused("too many bytes, and no length", f, http.StatusTooManyRequests, "TOO_MANY_UPLOADS")
	if after := size(); after != before {
		t.Errorf("a refused file takes %d bytes", after-before)
	}
}

// However many users there are, or addresses: what is not paid has a bound in all, for each of the two. A small file
// counts as a tenth of a megabyte.
func TestUnpaidFilesAreBoundedInAll(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) {
		c.Prices = community.DefaultSettings()
		c.Prices.MaxUpload, c.Prices.MaxUnpaidUploadBytes, c.Prices.MaxUnpaidInAll = 150_000, 200_000, 200_000
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	one, two, three := a.Person("one", 100, 0), a.Person("two", 0, 0), a.Person("three", 0, 0)
	post := func(as person, from string) file {
		return a.File(http.MethodPost, "/uploads", as, strings.NewReader(png), "Content-Type", "image/png", "X-Forwarded-For", from)
	}
	first := a.Upload(one, png+strings.Repeat("x", 100_000))
	a.Upload(two, png)
	a.wantRefused("another user", post(three, "192.0.2.1"), http.StatusTooManyRequests, "TOO_MANY_UPLOADS")
	for n := range 2 { // the others' files take no room of theirs
		if f := post(nobody, fmt.Sprint("192.0.2.", n)); f.Status != http.StatusCreated {
			t.Errorf("%d %s", f.Status, f.Body)
		}
	}
	a.wantRefused("another address", post(nobody, "192.0.2.3"), http.StatusTooManyRequests, "TOO_MANY_UPLOADS")
	a.Want(one, `mutation($u: [ID!]) { createPost(title: "x", uploads: $u) { id } }`, vars{"u": []string{first.ID}})
	a.Upload(three, png)
}

// arriving is a file of which the beginning has been sent.
type arriving struct {
	*io.PipeWriter
	answer chan file
}

// begin begins to upload a file. It has its place: its body is asked for only then.
func (a *api) begin(as person, headers ...string) *arriving {
	a.Helper()
	body, end := io.Pipe()
	answer := make(chan file, 1)
	go func() {
		answer <- a.File(http.MethodPost, "/uploads", as, body, append(headers, "Content-Type", "image/png", "Expect", "100-continue")...)
	}()
	if _, err := io.WriteString(end, png); err != nil {
		a.Fatal(err)
	}
	return &arriving{end, answer}
}

// end sends no more of these files, and wants them to be taken as they are.
func (a *api) end(all []*arriving) {
	a.Helper()
	for _, up := range all {
		_ = up.Close()
		if f := <-up.answer; f.Status != http.StatusCreated {
			a.Errorf("%d %s", f.Status, f.Body)
		}
	}
}

// A slow sender takes up no more than two places of their own.
func TestSlowFilesHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	a := serve(t)
	slow, other := a.Person("slow", 0, 0), a.Person("other", 0, 0)
	var all []*arriving
	for range 2 {
		all = append(all, a.begin(slow))
	}
	a.wantRefused("a third at once", a.File(http.MethodPost, "/uploads", slow, strings.NewReader(png), "Content-Type", "image/png"),
		http.StatusServiceUnavailable, "TRY_AGAIN")
	a.Upload(other, png)
	a.end(all)
	a.Upload(slow, png)
}

// However many addresses hold the places of addresses, users have others.
func TestFilesOfAddressesHoldUpNoUser(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	p := a.Person("somebody", 0, 0)
	var all []*arriving
	for n := range 8 {
		all = append(all, a.begin(nobody, "X-Forwarded-For", fmt.Sprint("192.0.2.", n/2)))
	}
	a.wantRefused("another address", a.File(http.MethodPost, "/uploads", nobody, strings.NewReader(png), "Content-Type", "image/png", "X-Forwarded-For", "192.0.2.9"),
		http.StatusServiceUnavailable, "TRY_AGAIN")
	a.Upload(p, png)
	a.end(all)
}

// Of a file that does not go on to arrive nobody waits for the rest as long as a large one may take.
func TestFilesThatStandStill(t *testing.T) {
	t.Parallel()
	a := serve(t)
	p := a.Person("somebody", 0, 0)
	up := a.begin(p)
	select {
	case f := <-up.answer:
		a.wantRefused("no more of it", f, http.StatusRequestTimeout, "TIME_LIMIT_EXCEEDED")
	case <-time.After(time.Minute):
		t.Error("it is still waited for")
	}
	_ = up.Close()
}

// A body that breaks off is no file, and of what breaks inside only a number is told.
func TestFilesThatFail(t *testing.T) {
	t.Parallel()
	a := serve(t)
	p := a.Person("somebody", 0, 0)
	u := a.Upload(p, png)
	if _, err := a.Pool.Exec(a.Ctx, `ALTER TABLE upload RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	a.wantRefused("POST", a.File(http.MethodPost, "/uploads", p, strings.NewReader(png), "Content-Type", "image/png"), http.StatusInternalServerError, "INTERNAL")
	a.wantRefused("GET", a.File(http.MethodGet, u.URL, p, nil), http.StatusInternalServerError, "INTERNAL")
	if n := a.Count(`SELECT count(*) FROM upload_data`); n != 1 {
		t.Errorf("the bytes of %d files are stored", n)
	}
	for method, want := range map[string]int{http.MethodGet: http.StatusMethodNotAllowed, http.MethodPut: http.StatusMethodNotAllowed} {
		if f := a.File(method, "/uploads", p, bytes.NewReader(nil)); f.Status != want {
			t.Errorf("%s /uploads: %d", method, f.Status)
		}
	}
}

// The author can change an item through the API, signed in or with the secret.
func TestUpdateItem(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, other := a.Person("author", 10, 0), a.Person("other", 0, 0)
	const update = `mutation($id: ID!, $b: String, $s: String, $u: [ID!]) {
		updateItem(item: $id, body: $b, secret: $s, uploads: $u) { id state paymentMethod costSats invoice { bolt11 } result { item { title body editedAt uploads { id } } } } }`
	post := a.PostBy(author, "mine")
	if r := a.Do(author, update, vars{"id": post, "b": "too late"}); r.code() != "EDIT_WINDOW_OVER" {
		t.Errorf("%s", r.Raw) // eleven minutes have passed
	}
	r := a.Want(author, `mutation { createPost(title: "new") { result { item { id editedAt uploads { id } pendingEdit { body } } } } }`, nil)
	post = r.text("createPost", "result", "item", "id")
	if r.at("createPost", "result", "item", "editedAt") != nil || fmt.Sprint(r.at("createPost", "result", "item", "uploads")) != "[]" {
		t.Errorf("%s", r.Raw)
	}
	for _, as := range []person{other, nobody} {
		if r := a.Do(as, update, vars{"id": post, "b": "stolen"}); r.code() != "FORBIDDEN" {
			t.Errorf("%s", r.Raw)
		}
	}
	r = a.Want(author, update, vars{"id": post, "b": "changed"})
	if r.text("updateItem", "state") != "PAID" || r.text("updateItem", "paymentMethod") != "ZERO_COST" ||
		r.text("updateItem", "result", "item", "body") != "changed" || r.text("updateItem", "result", "item", "title") != "new" ||
		r.at("updateItem", "result", "item", "editedAt") == nil {
		t.Errorf("%s", r.Raw)
	}
	// Until a change by invoice is paid, only the author sees it.
	u := a.Upload(author, png)
	if _, err := a.Pool.Exec(a.Ctx, `UPDATE upload SET fee_msat = 100000`); err != nil {
		t.Fatal(err)
	}
	r = a.Want(author, update, vars{"id": post, "b": "with a picture", "u": []string{u.ID}})
	a.PayInvoice(r.text("updateItem", "invoice", "bolt11"))
	a.Advance(number(t, r.text("updateItem", "id")))
	const item = `query($id: ID!) { item(id: $id) { body pendingEdit { title body createdAt } uploads { id } } }`
	if r := a.Want(author, item, vars{"id": post}); r.text("item", "body") != "changed" || r.text("item", "pendingEdit", "body") != "with a picture" ||
		r.text("item", "pendingEdit", "title") != "new" || fmt.Sprint(r.at("item", "uploads")) == "[]" {
		t.Errorf("its author sees %s", r.Raw)
	}
	for _, as := range []person{other, nobody} {
		if r := a.Want(as, item, vars{"id": post}); r.text("item", "body") != "changed" || r.at("item", "pendingEdit") != nil || fmt.Sprint(r.at("item", "uploads")) != "[]" {
			t.Errorf("another sees %s", r.Raw)
		}
	}
	a.Drain()
	if r := a.Want(nobody, item, vars{"id": post}); r.text("item", "body") != "with a picture" || fmt.Sprint(r.at("item", "uploads")) == "[]" {
		t.Errorf("once paid: %s", r.Raw)
	}

	// Anonymous authors show the secret, which is stored nowhere.
	r = a.Want(nobody, `mutation { createPost(title: "anonymous") { id secret invoice { bolt11 } } }`, nil)
	secret := r.text("createPost", "secret")
	a.PayInvoice(r.text("createPost", "invoice", "bolt11"))
	a.Advance(number(t, r.text("createPost", "id")))
	a.Drain()
	made := a.Want(nobody, `query($id: ID!, $s: String) { paidAction(id: $id, secret: $s) { ... on ItemCreateAction { result { item { id } } } } }`,
		vars{"id": r.text("createPost", "id"), "s": secret})
	post = made.text("paidAction", "result", "item", "id")
	for wrong, code := range map[string]string{"": "FORBIDDEN", strings.Repeat("0", 64): "FORBIDDEN"} {
		if r := a.Do(nobody, update, vars{"id": post, "b": "stolen", "s": wrong}); r.code() != code {
			t.Errorf("%s", r.Raw)
		}
	}
	if r := a.Want(nobody, update, vars{"id": post, "b": "mine", "s": secret}); r.text("updateItem", "result", "item", "body") != "mine" {
		t.Errorf("%s", r.Raw)
	}
	if n := a.Count(`SELECT count(*) FROM paid_action WHERE args::text LIKE '%' || $1 || '%'`, secret); n != 0 {
		t.Error("the secret is stored")
	}
}
