package outside

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// A compressed answer is not unpacked: its size on the wire counts.
func TestBombsAreNotUnpacked(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	packed := gzip.NewWriter(&bomb)
	for range 100 { // MiB
		if _, err := packed.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); strings.Contains(got, "gzip") {
			t.Errorf("packed answers are asked for: %q", got)
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	answer, err := guarded(t, s).Do(t.Context(), Request{URL: s.URL})
	if len(answer.Body) > MaxBody || err == nil && !bytes.HasPrefix(bomb.Bytes(), answer.Body) || err != nil && !errors.Is(err, ErrTooLarge) {
		t.Errorf("a bomb of %d bytes became %d, error %v", bomb.Len(), len(answer.Body), err)
	}
}

// A Nostr relay's compressed messages are not unpacked either.
func TestWebsocketsAreNotUnpacked(t *testing.T) {
	t.Parallel()
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Sec-WebSocket-Extensions"); got != "" {
			t.Errorf("packed messages are asked for: %q", got)
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover})
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		_ = conn.Write(r.Context(), websocket.MessageText, make([]byte, 10<<20))
	})
	socket, err := guarded(t, s).Websocket(t.Context(), "wss"+strings.TrimPrefix(s.URL, "https"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if message, err := socket.Read(t.Context()); len(message) > 0 || !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message of %d bytes, error %v", len(message), err)
	}
}

// An endless header is abandoned, as an endless body is.
func TestEndlessHeadersAreLeft(t *testing.T) {
	t.Parallel()
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = conn.Write([]byte("HTTP/1.1 200 OK\r\n"))
		for err == nil {
			_, err = conn.Write([]byte("X-More: " + strings.Repeat("x", 1000) + "\r\n"))
		}
	})
	if _, err := guarded(t, s).Do(t.Context(), Request{URL: s.URL}); !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrTooLarge) {
		t.Errorf("headers without an end: %v", err)
	}
}

// A redirect with a user, another scheme or a port of a private server does not get around the guard, neither for
// websockets nor for calls.
func TestWebsocketsAreGuardedAgainstRedirects(t *testing.T) {
	t.Parallel()
	private := server(t, func(http.ResponseWriter, *http.Request) { t.Error("a private server was reached by a redirect") })
	for to, want := range map[string]error{
		"wss" + strings.TrimPrefix(private.URL, "https"): ErrForbidden, private.URL: ErrForbidden, "https://user@wallet.example/": ErrAddress,
		"http://wallet.example/": ErrAddress, "https://[::ffff:127.0.0.1]:443/": ErrForbidden, "https://[64:ff9b::7f00:1]/": ErrForbidden,
	} {
		s := server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) })
		if _, err := guarded(t, s).Websocket(t.Context(), "wss"+strings.TrimPrefix(s.URL, "https")); !errors.Is(err, want) && !errors.Is(err, ErrUnreachable) {
			t.Errorf("a websocket redirected to %s: %v", to, err)
		}
		if _, err := guarded(t, s).Do(t.Context(), Request{URL: s.URL}); !errors.Is(err, want) && !errors.Is(err, ErrAddress) && !errors.Is(err, ErrUnreachable) {
			t.Errorf("a call redirected to %s: %v", to, err)
		}
	}
}
