package lnurl

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/btcsuite/btcd/btcutil/bech32"
	"pgregory.net/rapid"
)

// published is the example of LUD-01.
const published = "LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0V9CXJ0M385EKVCENXC6R2C35XVUKXEFCV5MKVV34X5EKZD3EV56NYD3HXQURZEPEXEJXXEPNXSCRVWFNV9NXZCN9XQ6XYEFHVGCXXCMYXYMNSERXFQ5FNS"

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"alice@wallet.example":             "https://wallet.example/.well-known/lnurlp/alice",
		" Alice@Wallet.Example\n":          "https://wallet.example/.well-known/lnurlp/alice",
		"lightning:alice@wallet.example":   "https://wallet.example/.well-known/lnurlp/alice",
		"a.b-c_d+tag@wallet.example:8443":  "https://wallet.example:8443/.well-known/lnurlp/a.b-c_d+tag",
		"alice@localhost:8080":             "http://localhost:8080/.well-known/lnurlp/alice",
		"alice@127.0.0.1:8080":             "http://127.0.0.1:8080/.well-known/lnurlp/alice",
		"alice@[::1]:8080":                 "http://[::1]:8080/.well-known/lnurlp/alice",
		"alice@10.0.0.1":                   "https://10.0.0.1/.well-known/lnurlp/alice",
		"https://wallet.example/pay?id=1#": "https://wallet.example/pay?id=1",
		"http://wallet.example/pay":        "http://wallet.example/pay",
		"lnurlp://wallet.example/pay?id=1": "https://wallet.example/pay?id=1",
		"LNURLP:wallet.example/Pay":        "https://wallet.example/Pay",
		"lnurlp://localhost:8080/pay":      "http://localhost:8080/pay",
		published:                          "https://service.com/api?q=3fc3645b439ce8e7f2553a69e5267081d96dcd340693afabe04be7b0ccd178df",
		strings.ToLower(published):         "https://service.com/api?q=3fc3645b439ce8e7f2553a69e5267081d96dcd340693afabe04be7b0ccd178df",
		"lightning:" + published:           "https://service.com/api?q=3fc3645b439ce8e7f2553a69e5267081d96dcd340693afabe04be7b0ccd178df",

		"": "", "alice": "", "@wallet.example": "", "alice@": "", "alice@wallet.example/x": "", "alice@wallet.example?x": "",
		"alice@wallet@example": "", "a b@wallet.example": "", "alice@wallet example": "", "älice@wallet.example": "", "../x@wallet.example": "",
		strings.Repeat("a", 65) + "@wallet.example": "", "alice@" + strings.Repeat("a", 2000): "", "user:pw@wallet.example": "",
		"https://": "", "https://user:password@wallet.example": "", "ftp://wallet.example": "", "file:///etc/passwd": "", "javascript://x": "",
		"lnurl1": "", published[:len(published)-1]: "", published + "Q": "", "Lnurl1" + published[6:]: "", strings.Replace(published, "5", "b", 1): "",
		"lnbc1" + published[6:]: "", encode(t, "ftp://wallet.example"): "", encode(t, "nonsense"): "", encode(t, ""): "", "lnurlp:": "", "lnurlp://": "",
	} {
		got, err := Parse(text)
		if got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("%q stands for %q, want %q; error %v", text, got, want, err)
		}
	}
}

func encode(t interface{ Fatal(...any) }, text string) string {
	data, err := bech32.ConvertBits([]byte(text), 8, 5, true)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := bech32.Encode("lnurl", data)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestParseLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// What is encoded is what comes out.
		u := url.URL{Scheme: "https", Host: rapid.StringMatching(`[a-z]{1,20}\.example`).Draw(t, "host"),
			Path: "/" + rapid.String().Draw(t, "path"), RawQuery: url.QueryEscape(rapid.String().Draw(t, "query"))}
		if got, err := Parse(encode(t, u.String())); err == nil && got != u.String() {
			t.Fatalf("%s became %s", u.String(), got)
		} else if err != nil && len(u.String()) < 1000 {
			t.Fatalf("%s: %v", u.String(), err)
		}
		// Whatever else comes in: no panic, and nothing but http and https comes out.
		for _, text := range []string{rapid.String().Draw(t, "text"), "lnurl1" + rapid.StringMatching(`[a-z0-9]*`).Draw(t, "data"),
			rapid.StringMatching(`[ -~]{0,20}@[ -~]{0,20}`).Draw(t, "address")} {
			got, err := Parse(text)
			if err != nil {
				continue
			}
			if u, err := url.Parse(got); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
				t.Fatalf("%q stands for %q", text, got)
			}
		}
	})
}

func TestReadPay(t *testing.T) {
	t.Parallel()
	const good = `{"tag":"payRequest","callback":"https://wallet.example/cb?id=1","minSendable":1000,"maxSendable":100000000,"metadata":"[[\"text/plain\",\"alice\"]]"}`
	p, err := ReadPay([]byte(good))
	if err != nil || p.Min != 1000 || p.Max != 100_000_000 {
		t.Fatalf("%+v, error %v", p, err)
	}
	if got := p.Callback(1234, "thanks"); got != "https://wallet.example/cb?id=1&amount=1234" {
		t.Errorf("asks %s", got)
	}
	// What is there already stays as it is: it may be signed (LUD-06).
	odd, err := ReadPay([]byte(strings.Replace(good, "id=1", "b=1&a=x;y&t&%zz", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if got := odd.Callback(1, ""); got != "https://wallet.example/cb?b=1&a=x;y&t&%zz&amount=1" {
		t.Errorf("asks %s", got)
	}
	for what, change := range map[string][2]string{
		"a withdrawal":           {`payRequest`, `withdrawRequest`},
		"no callback":            {`https://wallet.example/cb?id=1`, ``},
		"a callback to nowhere":  {`https://wallet.example/cb?id=1`, `/cb`},
		"an unreadable callback": {`https://wallet.example/cb?id=1`, `https://%zz`},
		"at least nothing":       {`"minSendable":1000`, `"minSendable":0`},
		"a negative least":       {`"minSendable":1000`, `"minSendable":-1`},
		"a fraction":             {`"minSendable":1000`, `"minSendable":1000.5`},
		"a text":                 {`"minSendable":1000`, `"minSendable":"much"`},
		"no least":               {`"minSendable":1000,`, ``},
		"the most below it":      {`"maxSendable":100000000`, `"maxSendable":999`},
		"beyond 64 bits":         {`"maxSendable":100000000`, `"maxSendable":99999999999999999999`},
		"no metadata":            {`[[\"text/plain\",\"alice\"]]`, ``},
		"metadata without text":  {`text/plain`, `image/png`},
		"metadata of numbers":    {`[[\"text/plain\",\"alice\"]]`, `[1]`},
		"no JSON":                {`{`, `<`},
		"a list":                 {good, `[]`},
	} {
		changed := strings.Replace(good, change[0], change[1], 1)
		if changed == good {
			t.Fatalf("%s changes nothing", what)
		}
		if _, err := ReadPay([]byte(changed)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	const reason = `{"status":"ERROR","reason":"the token secret is wrong"}`
	if _, err := ReadPay([]byte(reason)); err != ErrDeclined { // nothing may be around it
		t.Errorf("an error: %v", err)
	}
	// Who must know the payer is not paid (LUD-18): we say nothing of them.
	for data, want := range map[string]error{`{"name":{"mandatory":true}}`: ErrDeclined, `{"name":{"mandatory":false},"auth":{"mandatory":true,"k1":"00"}}`: ErrDeclined,
		`{"name":{"mandatory":false}}`: nil, `{"email":{}}`: nil, `null`: nil, `true`: nil} {
		if _, err := ReadPay([]byte(strings.Replace(good, "{", `{"payerData":`+data+`,`, 1))); !errors.Is(err, want) {
			t.Errorf("payer data %s: %v", data, err)
		}
	}
}

func TestComments(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		allowed := rapid.IntRange(0, 50).Draw(t, "allowed")
		comment := rapid.String().Draw(t, "comment")
		body, err := json.Marshal(map[string]any{"tag": "payRequest", "callback": "https://wallet.example/cb?comment=theirs", "minSendable": 1, "maxSendable": 1,
			"metadata": `[["text/plain",""]]`, "commentAllowed": allowed})
		if err != nil {
			t.Fatal(err)
		}
		p, err := ReadPay(body)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(p.Callback(1, comment))
		if err != nil {
			t.Fatal(err)
		}
		got := u.Query().Get("comment")
		if allowed == 0 || comment == "" {
			if got != "theirs" {
				t.Fatalf("the callback's own query became %q", got)
			}
			return
		}
		if utf8.RuneCountInString(got) != min(allowed, utf8.RuneCountInString(comment)) || !strings.HasPrefix(comment, got) {
			t.Fatalf("of %q with %d allowed %q is sent", comment, allowed, got)
		}
	})
}

func TestReadInvoice(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]error{
		`{"pr":"lnbc1","routes":[]}`: nil, `{"status":"OK","pr":"lnbc1"}`: nil,
		`{"status":"ERROR","reason":"secret"}`: ErrDeclined, `{}`: ErrMalformed, `{"pr":""}`: ErrMalformed, `{"pr":1}`: ErrMalformed, `<html>`: ErrMalformed, ``: ErrMalformed, `null`: ErrMalformed,
	} {
		if got, err := ReadInvoice([]byte(body)); !errors.Is(err, want) || (got.Bolt11 == "lnbc1") != (want == nil) {
			t.Errorf("%s: %q, error %v", body, got, err)
		}
	}
	for action, want := range map[string]string{`{"tag":"message","message":"thanks"}`: ActionMessage, `{"tag":"aes","ciphertext":"x"}`: "aes", `{"tag":"url","url":"https://x"}`: "url",
		`null`: "", `{}`: "unknown", `"thanks"`: "unknown", `[]`: "unknown"} {
		if got, err := ReadInvoice([]byte(`{"pr":"lnbc1","successAction":` + action + `}`)); err != nil || got.Action != want || got.Bolt11 != "lnbc1" {
			t.Errorf("%s is read as %+v, error %v", action, got, err)
		}
	}
}
