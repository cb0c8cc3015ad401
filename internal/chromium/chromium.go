// Package chromium names the browser that the client is tried in.
package chromium

import "github.com/a-seed-a7aed72f/holdfast/internal/aptget"

// Program is the browser, from Debian's package.
var Program = aptget.Program{Name: "chromium", Package: "chromium"}
