package outside

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// spec 03 §3.1
func TestBoundsAreTheSpecified(t *testing.T) {
	t.Parallel()
	if Timeout != 20*time.Second || MaxRedirects != 2 || MaxBody != 64*1024 {
		t.Errorf("a call may last %s, be redirected %d times, and read %d bytes", Timeout, MaxRedirects, MaxBody)
	}
}

func TestAddressesThatAreNotCalled(t *testing.T) {
	t.Parallel()
	c, development := New(Config{}), New(Config{AllowPrivate: true})
	for address, inDevelopment := range map[string]bool{
		"http://wallet.example": true, "ws://wallet.example": true,
		"ftp://wallet.example": false, "file:///etc/passwd": false, "gopher://wallet.example": false, "//wallet.example": false, "wallet.example": false,
		"": false, "https://": false, "https://:443": false, "https://user:password@wallet.example": false, "https://user@wallet.example": false,
		"https://wallet.example\x00": false, "https://%zz": false, "unix:///run/docker.sock": false,
	} {
		if _, err := c.Parse(address); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v", address, err)
		}
		if _, err := development.Parse(address); (err == nil) != inDevelopment {
			t.Errorf("%q in development: %v", address, err)
		}
		if _, err := c.Do(t.Context(), Request{URL: address}); !errors.Is(err, ErrAddress) {
			t.Errorf("%q was called: %v", address, err)
		}
		if _, err := c.Websocket(t.Context(), address); !errors.Is(err, ErrAddress) {
			t.Errorf("%q was called for a websocket: %v", address, err)
		}
	}
	for _, address := range []string{"https://wallet.example/path?query=1", "wss://relay.example:8443", "https://[2606:4700::1111]/"} {
		if _, err := c.Parse(address); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	var hops []string
	var headers []http.Header
	var other *httptest.Server
	private := server(t, func(w http.ResponseWriter, _ *http.Request) { t.Error("a private server was reached by a redirect") })
	note := func(w http.ResponseWriter, r *http.Request) {
		hops = append(hops, r.Method+" "+r.URL.Path)
		headers = append(headers, r.Header)
		to := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), ",", 2)
		rest := ""
		if len(to) == 2 {
			rest = "/" + to[1]
		}
		switch to[0] {
		case "here":
			http.Redirect(w, r, rest, http.StatusTemporaryRedirect)
		case "there":
			http.Redirect(w, r, other.URL+rest, http.StatusTemporaryRedirect)
		case "private":
			http.Redirect(w, r, private.URL, http.StatusFound)
		case "plain":
			http.Redirect(w, r, "http://wallet.example/", http.StatusFound)
		case "file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "metadata":
			http.Redirect(w, r, "https://169.254.169.254/latest/meta-data", http.StatusFound)
		}
	}
	first := server(t, note)
	other = server(t, note)
	c := guarded(t, first, other)
	body := []byte("{}")
	for _, x := range []struct {
		path string
		body []byte
		want error
		hops int
	}{
		{"/end", nil, nil, 1},
		{"/here,end", nil, nil, 2},
		{"/here,there,end", nil, nil, 3},
		{"/here,here,here,end", nil, ErrRedirected, 3},
		{"/there,there,there,end", nil, ErrRedirected, 3},
		{"/private", nil, ErrForbidden, 1},
		{"/there,private", nil, ErrForbidden, 2},
		{"/metadata", nil, ErrForbidden, 1},
		{"/plain", nil, ErrAddress, 1},
		{"/file", nil, ErrAddress, 1},
		{"/here,end", body, nil, 2},
		{"/there,end", body, ErrRedirected, 1},
	} {
		hops, headers = nil, nil
		_, err := c.Do(t.Context(), Request{URL: first.URL + x.path, Body: x.body, Header: http.Header{"X-Api-Key": {"secret"}}})
		if !errors.Is(err, x.want) || len(hops) != x.hops {
			t.Errorf("%s with body %q: %v after %q, want %v after %d", x.path, x.body, err, hops, x.want, x.hops)
		}
	}
	hops = nil
	if answer, err := c.Do(t.Context(), Request{URL: first.URL + "/here,end", Stays: true}); err != nil || answer.Status != http.StatusTemporaryRedirect || len(hops) != 1 {
		t.Errorf("where no redirect is to be followed: %d, %v after %q", answer.Status, err, hops)
	}
	// Another server gets no secret, also not by a redirect from itself to itself.
	for path, want := range map[string][]string{"/here,there,end": {"secret", "secret", ""}, "/there,there,end": {"secret", "", ""}} {
		hops, headers = nil, nil
		if _, err := c.Do(t.Context(), Request{URL: first.URL + path + "?token=secret", Header: http.Header{"X-Api-Key": {"secret"}}}); err != nil || len(headers) != len(want) {
			t.Fatalf("%s: %v after %q", path, err, hops)
		}
		for i, want := range want {
			if got := headers[i].Get("X-Api-Key"); got != want || headers[i].Get("Referer") != "" {
				t.Errorf("%s: hop %d got the headers %v", path, i+1, headers[i])
			}
		}
	}
}

func TestSizesAreBounded(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 1)
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fits":
			_, _ = w.Write(make([]byte, MaxBody))
		case "/byte":
			_, _ = w.Write(make([]byte, MaxBody+1))
		case "/huge":
			n := 0
			for range 10 << 10 {
				m, err := w.Write(make([]byte, 1<<10))
				if n += m; err != nil {
					break
				}
			}
			sent <- n
		case "/headers":
			w.Header().Set("X-Long", strings.Repeat("x", maxHeaders))
		}
	})
	c := guarded(t, s)
	for path, want := range map[string]error{"/fits": nil, "/byte": ErrTooLarge, "/huge": ErrTooLarge, "/headers": ErrUnreachable} {
		answer, err := c.Do(t.Context(), Request{URL: s.URL + path})
		if !errors.Is(err, want) || len(answer.Body) != map[bool]int{true: MaxBody}[err == nil] {
			t.Errorf("%s: %d bytes, error %v, want %v", path, len(answer.Body), err, want)
		}
	}
	if n := <-sent; n >= 10<<20 {
		t.Error("10 MiB were read")
	}
}

// Whatever the protocol, one connection reads no more than its bound.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write(make([]byte, 1<<20))
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	conn, err := New(Config{AllowPrivate: true}).Dial(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := io.Copy(io.Discard, conn); n != maxRead || !errors.Is(err, ErrTooLarge) {
		t.Errorf("read %d bytes, error %v", n, err)
	}
}

func TestWebsocketsAreBounded(t *testing.T) {
	t.Parallel()
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		size, err := strconv.Atoi(r.URL.Query().Get("size"))
		if err != nil {
			t.Error(err)
		}
		for range 1 << 10 {
			if conn.Write(r.Context(), websocket.MessageText, make([]byte, size)) != nil {
				return
			}
		}
	})
	for size, most := range map[int]int{1 << 10: maxRead, MaxBody + 1: 0} {
		socket, err := guarded(t, s).Websocket(t.Context(), "wss"+strings.TrimPrefix(s.URL, "https")+"?size="+strconv.Itoa(size))
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		for err == nil {
			var message []byte
			message, err = socket.Read(t.Context())
			read += len(message)
		}
		socket.Close()
		if read > most || err != ErrTooLarge { // nothing may be around it
			t.Errorf("of messages of %d bytes %d bytes were read, error %v", size, read, err)
		}
	}
}

// The text with which a server closes is foreign text.
func TestWebsocketsThatEnd(t *testing.T) {
	t.Parallel()
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close(websocket.StatusPolicyViolation, "secret")
	})
	socket, err := guarded(t, s).Websocket(t.Context(), "wss"+strings.TrimPrefix(s.URL, "https"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if _, err := socket.Read(t.Context()); err != ErrUnreachable { // nothing may be around it
		t.Errorf("read from a socket that has ended: %v", err)
	}
}

// A server that answers byte by byte, or not at all, is abandoned when time is up.
func TestSlowServersAreLeft(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write([]byte("{"))
			w.(http.Flusher).Flush()
		}
		if r.URL.Path == "/given-up" {
			begun <- struct{}{}
		}
		<-r.Context().Done()
	})
	c := guarded(t, s)
	for _, path := range []string{"/body", "/nothing"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, err := c.Do(ctx, Request{URL: s.URL + path}); !errors.Is(err, ErrTimeout) {
			t.Errorf("%s: %v", path, err)
		}
		cancel()
	}
	limited, end := context.WithTimeout(t.Context(), 5*time.Second)
	defer end()
	if answer, err := c.Do(limited, Request{URL: s.URL + "/body", StatusOnly: true}); err != nil || answer.Status != http.StatusOK || limited.Err() == nil {
		t.Errorf("where only the status is wanted: %+v, %v", answer, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, err := c.Do(ctx, Request{URL: s.URL + "/given-up"}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up by the caller: %v", err)
	}
}

// A server that changes the protocol, which nobody asked it to, is waited for no longer either: what net/http hands over then
// ends with no context.
func TestNoOtherProtocolIsSpoken(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	s := server(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, both, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = both.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: silence\r\n\r\n")
		_ = both.Flush()
		<-over
	})
	t.Cleanup(func() { close(over) }) // before the server is closed, which waits for its handlers
	c := guarded(t, s)
	for _, statusOnly := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		answers := make(chan Answer, 1)
		go func() {
			answer, err := c.Do(ctx, Request{URL: s.URL, StatusOnly: statusOnly})
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		}()
		select {
		case answer := <-answers:
			if answer.Status != http.StatusSwitchingProtocols || len(answer.Body) != 0 {
				t.Errorf("%+v", answer)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it is waited for without an end")
		}
		cancel()
	}
}

// So it is where the caller has set no time: of all that is awaited from a stranger, nothing is without an end.
func TestTimeIsBounded(t *testing.T) {
	t.Parallel()
	s := server(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := guarded(t, s)
	c.timeout = 100 * time.Millisecond
	if _, err := c.Do(t.Context(), Request{URL: s.URL}); !errors.Is(err, ErrTimeout) {
		t.Errorf("a server that does not answer: %v", err)
	}
	if _, err := c.Websocket(t.Context(), "wss"+strings.TrimPrefix(s.URL, "https")); !errors.Is(err, ErrTimeout) {
		t.Errorf("a server that opens no websocket: %v", err)
	}
	c.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-t.Context().Done()
		return nil, ctx.Err()
	}}
	if _, err := c.Dial(t.Context(), "wallet.example:443"); !errors.Is(err, ErrTimeout) {
		t.Errorf("a name that is not answered for: %v", err)
	}
}

// No connection is left behind by a call, whatever the server would allow.
func TestConnectionsAreNotKept(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	if _, err := guarded(t, s).Do(t.Context(), Request{URL: s.URL}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection is still open")
	}
}

func TestErrorsSayNothingOfTheServer(t *testing.T) {
	t.Parallel()
	s := server(t, func(w http.ResponseWriter, _ *http.Request) {})
	stranger := New(Config{AllowPrivate: true})                                         // does not trust the certificate
	if _, err := stranger.Do(t.Context(), Request{URL: s.URL}); err != ErrCertificate { // nothing may be around it
		t.Errorf("a certificate of nobody: %v", err)
	}
	s.Close()
	if _, err := guarded(t, s).Do(t.Context(), Request{URL: s.URL + "/?token=secret"}); err != ErrUnreachable {
		t.Errorf("a server that is down: %v", err)
	}
	if _, err := guarded(t, s).Dial(t.Context(), s.Listener.Addr().String()); err != ErrUnreachable {
		t.Errorf("a connection to it: %v", err)
	}
}

// No proxy of the environment connects for us.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	if New(Config{}).http(nil).Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy is used")
	}
}
