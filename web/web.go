// Package web is the client that people use. It serves pages that are built into the program (web/src, built into
// web/dist by make generate), the QR codes that they show, and in development the way to the demo wallet. The pages get
// all their data from the API.
package web

import (
	_ "embed"
	"net/http"
	"net/url"
	"strings"
)

var (
	//go:embed index.html
	index string
	//go:embed icon.svg
	icon []byte
	//go:embed dist/app.js
	script []byte
	//go:embed dist/app.css
	style []byte
)

// contentPolicy forbids a page to load anything from elsewhere, and inline code and styles.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// pages are the addresses that the client knows (web/src/app.tsx). The client decides what they show.
var pages = []string{"/{$}", "/new", "/top", "/territories", "/t/{name}", "/t/{name}/{sort}", "/items/{id}", "/u/{name}", "/post",
	"/notifications", "/wallet", "/wallet/{what}", "/settings"}

// NewHandler serves the client. demoWallet is where the demo wallet of a development network listens; nil: there is
// none. walletSignIn says whether people can sign in by their wallets.
func NewHandler(demoWallet *url.URL, walletSignIn bool) http.Handler {
	mux := http.NewServeMux()
	named := map[string]string{"{{head}}": ""}
	var assets []asset
	for placeholder, file := range map[string]asset{
		"{{script}}": pack("app.js", "text/javascript; charset=utf-8", script),
		"{{style}}":  pack("app.css", "text/css; charset=utf-8", style),
		"{{icon}}":   pack("icon.svg", "image/svg+xml", icon),
	} {
		named[placeholder] = file.path
		assets = append(assets, file)
		mux.Handle("GET "+file.path, file.forEver())
	}
	mux.Handle("GET /assets/", ofAnotherVersion(assets))
	if demoWallet != nil {
		named["{{head}}"] += `<meta name="demo-wallet" content="/demo-wallet">`
		mux.Handle("POST /demo-wallet", demo(demoWallet))
	}
	if walletSignIn {
		named["{{head}}"] += `<meta name="wallet-sign-in" content="yes">`
	}
	var pairs []string
	for placeholder, value := range named {
		pairs = append(pairs, placeholder, value)
	}
	page := pack("index.html", "text/html; charset=utf-8", []byte(strings.NewReplacer(pairs...).Replace(index)))
	for _, path := range pages {
		mux.Handle("GET "+path, page.asPage(http.StatusOK))
	}
	mux.Handle("GET /qr", http.HandlerFunc(qrCode))
	mux.Handle("GET /", page.asPage(http.StatusNotFound)) // the client says so in its own words
	return mux
}
