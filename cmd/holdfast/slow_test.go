package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// A client that opens a connection and then sends hardly anything loses it, and sooner if not even its headers came;
// others are served meanwhile.
func TestSlowSendersAreLeft(t *testing.T) {
	t.Parallel()
	s := serve(t, settings(pgtest.New(t)))
	begun := time.Now()
	open := func(sent string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	nothing := open("")
	half := open("POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
	headers := open("POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	if status, _ := s.get("/healthz"); status != 200 {
		t.Errorf("others get %d", status)
	}
	const slack = 5 * time.Second // of a loaded machine
	for _, c := range []struct {
		sent   string
		conn   net.Conn
		within time.Duration
	}{
		{"nothing", nothing, readHeaderTimeout}, {"half of the headers", half, readHeaderTimeout}, {"no body", headers, readTimeout},
	} {
		_ = c.conn.SetReadDeadline(begun.Add(c.within + slack))
		if _, err := io.Copy(io.Discard, c.conn); err != nil {
			t.Errorf("%s was sent, and the connection is still open after %s: %v", c.sent, time.Since(begun), err)
		}
	}
}

// Headers of unlimited length are not read.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, settings(pgtest.New(t)))
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n")
	for range 1000 {
		if err == nil {
			_, err = io.WriteString(conn, "X-More: "+strings.Repeat("x", 1000)+"\r\n")
		}
	}
	answer, _ := io.ReadAll(conn)
	if err == nil && !strings.HasPrefix(string(answer), "HTTP/1.1 431") {
		t.Errorf("a megabyte of headers was taken: %.100s", answer)
	}
}

// Drawing a code counts as a request of its address.
func TestCodesAreCounted(t *testing.T) {
	t.Parallel()
	s := serve(t, settings(pgtest.New(t), "HOLDFAST_RATE_ADDRESS=0.1")) // one may come at once
	if status, body := s.get("/qr?text=lnbc1"); status != http.StatusOK || !strings.Contains(body, "<svg") {
		t.Fatalf("the first code: %d %s", status, body)
	}
	if status, body := s.get("/qr?text=lnbc2"); status != http.StatusTooManyRequests || !strings.Contains(body, "Wait 10 s") {
		t.Errorf("the next code: %d %s", status, body)
	}
	if status, _ := s.get("/"); status != http.StatusOK {
		t.Errorf("the page is counted too: %d", status)
	}
}
