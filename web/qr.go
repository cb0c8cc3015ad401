package web

import (
	"fmt"
	"net/http"
	"strings"

	"rsc.io/qr"
)

// maxQR is the longest text that becomes a code, in bytes: more than any of our invoices has, and still readable from a
// screen.
const maxQR = 1500

// qrCode draws the code of a text: GET /qr?text=…
func qrCode(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("text")
	if text == "" || len(text) > maxQR {
		http.Error(w, fmt.Sprintf("Send a text of 1 to %d bytes.", maxQR), http.StatusBadRequest)
		return
	}
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		http.Error(w, "This text cannot be made into a QR code.", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable") // private: an invoice is its payer's
	_, _ = w.Write([]byte(draw(code)))                                      // the client may be gone
}

// draw returns the code as SVG, with the margin that readers need. It is black on white, whatever the colours of the
// page.
func draw(code *qr.Code) string {
	const margin = 4
	side := code.Size + 2*margin
	var path strings.Builder
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			width := 0
			for x+width < code.Size && code.Black(x+width, y) {
				width++
			}
			if width > 0 {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", x+margin, y+margin, width, width)
				x += width
			}
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[1]d" shape-rendering="crispEdges">`+
		`<path fill="#fff" d="M0 0h%[1]dv%[1]dH0z"/><path d="%[2]s"/></svg>`, side, path.String())
}
